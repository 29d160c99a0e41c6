from pathlib import Path

import pytest
import small_wmt
from sacrebleu.dataset import DATASETS

from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.metrics import bleu
from t2t_keras.text.sources import plain_text

TRAINING = {
    "de": {"europarl-v7": 120, "commoncrawl": 60, "news-commentary-v9": 40},
    "fr": {
        "europarl-v7": 110,
        "commoncrawl": 50,
        "undoc.2000": 35,
        "news-commentary-v9": 30,
        "giga-fren.release2.fixed": 45,
    },
}


@pytest.fixture(autouse=True)
def no_tfds(monkeypatch, tmp_path):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))


@pytest.mark.parametrize(
    ("name", "other", "edition", "dev_in_sgml"),
    [
        ("translate_ende", "de", "full", False),
        ("translate_ende", "de", "filtered", True),
        ("translate_ende_rev", "de", "filtered", False),
        ("translate_enfr", "fr", "", True),
    ],
)
def test_the_whole_of_datagen(pairs_of, tmp_path, name, other, edition, dev_in_sgml):
    config = f"newstest2014={edition}" if edition else ""
    problem = make_problem(name, f"vocab_size=340,{config}")
    small_wmt.write_archives(tmp_path / "archives", dev_in_sgml)
    generate(problem, tmp_path, tmp_path / "archives", chunk_pairs=70)
    generated = open_generated(problem, tmp_path)
    assert generated.problem.text_source == "archives"
    codes = generated.problem.languages()
    assert codes == (("de", "en") if problem.reverse else ("en", other))

    def expected(corpora):
        sides = (
            [line for corpus in corpora.items() for line in small_wmt.lines(code, *corpus)]
            for code in codes
        )
        return list(zip(*sides, strict=True))

    assert pairs_of(generated, "train") == expected(TRAINING[other])
    # That to English was never filtered.
    test = "filtered" if edition == "filtered" and not problem.reverse else "full"
    for split, text in (("dev", "newstest2013"), ("test", test)):
        lines = list(zip(*generated.text(split), strict=True))
        assert lines == expected({text: small_wmt.TEST_LINES[text]})
        assert generated.manifest["splits"][split]["left_out"] == {}


@pytest.mark.parametrize(
    ("name", "there"),
    [("translate_ende", ("src.de", "ref.en")), ("translate_ende_rev", ("src.en", "ref.de"))],
)
def test_newstest2014_in_dev_tgz_of_one_direction(tmp_path, name, there):
    members = small_wmt.newstest2014("full", "dev/", "de")
    some = {member: text for member, text in members.items() if member.split("-")[-1][:-4] in there}
    small_wmt.archive(tmp_path / "dev.tgz", some)
    [paths] = plain_text(make_problem(name).files(tmp_path)["test"], tmp_path)
    for code, path in zip(("en", "de"), paths, strict=True):
        assert path.read_text().splitlines() == small_wmt.lines(code, "full", 14)


@pytest.mark.parametrize(
    ("name", "edition", "split", "lines", "expected"),
    [
        ("translate_enfr", "", "test", 3003, "newstest2014 (3,003 lines)"),
        ("translate_ende", "full", "dev", 3000, "newstest2013 (3,000 lines)"),
        ("translate_ende", "full", "test", 2737, "2,737 lines; as published it has 3,003"),
        ("translate_ende", "filtered", "test", 2737, "filtered edition (2,737 lines)"),
        ("translate_ende_rev", "filtered", "test", 3003, "filtered edition (3,003 lines)"),
    ],
)
def test_scores_say_which_edition(name, edition, split, lines, expected):
    config = f"newstest2014={edition}" * bool(edition)
    assert expected in make_problem(name, config).text_name(split, lines)


def test_words_are_divided_as_the_language_that_is_written_has_them():
    lines, references = ["L'homme d'abord, it's his."], ["L'homme d'abord, it's hers."]
    for name, language in (("translate_enfr", "fr"), ("translate_enfr_rev", "en")):
        conventions = make_problem(name).score(lines, references).conventions
        expected = bleu(lines, references, conventions=["tokenised"], language=language)
        assert conventions == expected.conventions
    assert conventions != make_problem("translate_enfr").score(lines, references).conventions


def test_the_paper_s_vocabularies():
    for name, size, kind in (
        ("translate_ende", 37_000, "bpe"),
        ("translate_enfr", 32_000, "unigram"),
        ("translate_ende_wmt32k", 32_768, "unigram"),
        ("translate_ende_wmt_bpe32k", 37_000, "bpe"),
        ("translate_enfr_wmt32k", 32_768, "unigram"),
    ):
        problem = make_problem(name)
        assert (problem.vocab_size, problem.vocab_kind) == (size, kind)


def test_the_official_sizes_and_checksums_are_those_of_tensorflow_datasets(tmp_path):
    tfds = pytest.importorskip("tensorflow_datasets")
    infos = {}
    for name in ("wmt14_translate", "wmt15_translate"):
        path = Path(tfds.__file__).parent / "url_checksums" / f"{name}.txt"
        for line in path.read_text().splitlines():
            url, size, checksum, _ = line.split("\t")
            infos[url] = int(size), checksum
    for name in ("translate_ende", "translate_enfr"):
        files = make_problem(name, "text_source=archives").files(tmp_path)
        for pair in files["train"] + files["dev"]:
            assert infos[pair.source.url] == (pair.source.size, pair.source.sha256)


@pytest.mark.parametrize(("edition", "dataset"), [("full", "wmt14/full"), ("filtered", "wmt14")])
def test_the_test_sets_are_those_of_sacrebleu(tmp_path, edition, dataset):
    known = DATASETS[dataset]
    # The full edition is taken from its own archive where that stands there.
    (tmp_path / "test-full.tgz").touch()
    for name, pair in (("translate_ende", "en-de"), ("translate_ende_rev", "de-en")):
        problem = make_problem(name, f"text_source=archives,newstest2014={edition}")
        (test,) = problem.files(tmp_path)["test"]
        sides = (test.source, test.target)[:: -1 if problem.reverse else 1]
        members = [(path.split("/")[1],) for path in known.langpairs[pair]]
        assert [side.members for side in sides] == members
        for side in sides:
            assert ([side.url], [side.md5]) == (known.data, known.md5)
            assert side.name == side.url.rpartition("/")[2]
