"""Archives like those of WMT14, a few lines each, with the folders, names and packing of the real.

Besides what is wanted they hold what the real ones hold too: other languages, notes, test sets of
other years.
"""

import gzip
import io
import random
import tarfile

WORDS = {
    "en": "the house stands near a green tree and nobody knows why it does so".split(),
    "de": "das Haus steht bei einem grünen Baum und niemand weiß warum es so ist".split(),
    "fr": "la maison est près d'un arbre vert et personne ne sait pourquoi c'est là".split(),
}
TEST_LINES = {"newstest2013": 15, "full": 14, "filtered": 9}


def lines(language, corpus, count):
    """Line N in one language has the number that line N in another has."""
    generator = random.Random(f"{language} {corpus}")
    return [
        f'{" ".join(generator.choices(WORDS[language], k=7))} {n} & "{corpus}".'
        for n in range(count)
    ]


def plain(text):
    return "".join(f"{line}\n" for line in text).encode()


def sgml(text):
    # tensorflow-datasets reads only segments that have a number.
    segments = plain(f'<seg id="1">{line.replace("&", "&amp;")}</seg>' for line in text)
    return b'<refset srclang="any">\n<doc docid="1">\n<p>\n%b</p>\n</doc>\n</refset>\n' % segments


def archive(path, members):
    with tarfile.open(path, "w" if path.suffix == ".tar" else "w:gz") as file:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))


def corpus(stem, other, count, folder="training/"):
    """Both sides of a training corpus, English last, as members."""
    return {
        f"{folder}{stem}.{other}-en.{code}": plain(lines(code, stem, count))
        for code in (other, "en")
    }


def newstest2014(edition, folder, other):
    """Both directions of newstest2014, as members; that to English was never filtered."""
    members = {}
    for kinds, text in ((("src", "ref"), edition), (("ref", "src"), "full")):
        for kind, code in zip(kinds, ("en", other), strict=True):
            name = f"{folder}newstest2014-{other}en-{kind}.{code}.sgm"
            members[name] = sgml(lines(code, text, TEST_LINES[text]))
    return members


def write_archives(tmp_dir, dev_in_sgml=False):
    tmp_dir.mkdir(parents=True, exist_ok=True)
    dev = {"dev/newstest2012.en": b"another year\n"}
    for code in WORDS:
        text = lines(code, "newstest2013", TEST_LINES["newstest2013"])
        dev |= {f"dev/newstest2013-{kind}.{code}.sgm": sgml(text) for kind in ("src", "ref")}
        if not dev_in_sgml:
            dev[f"dev/newstest2013.{code}"] = plain(text)
    giga = corpus("giga-fren.release2.fixed", "fr", 45, folder="")
    for name, members in {
        "training-parallel-europarl-v7.tgz": {
            "training/europarl-v7.cs-en.cs": b"jen jeden\n",
            **corpus("europarl-v7", "de", 120),
            **corpus("europarl-v7", "fr", 110),
        },
        "training-parallel-commoncrawl.tgz": {
            **corpus("commoncrawl", "de", 60, folder=""),
            "commoncrawl.de-en.annotation": b"note\n" * 60,
            **corpus("commoncrawl", "fr", 50, folder=""),
        },
        "training-parallel-nc-v9.tgz": {
            **corpus("news-commentary-v9", "de", 40),
            **corpus("news-commentary-v9", "fr", 30),
        },
        "training-parallel-un.tgz": corpus("undoc.2000", "fr", 35, folder="un/"),
        "training-giga-fren.tar": {
            f"{name.replace('.fr-en', '')}.gz": gzip.compress(text) for name, text in giga.items()
        },
        "dev.tgz": dev | newstest2014("full", "dev/", "de") | newstest2014("full", "dev/", "fr"),
        "test-filtered.tgz": newstest2014("filtered", "test/", "de"),
    }.items():
        archive(tmp_dir / name, members)
