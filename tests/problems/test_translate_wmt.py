import urllib.request
from pathlib import Path

import pytest
from sacrebleu.dataset import DATASETS

from t2t_keras import registry
from t2t_keras.data.generate import generate
from t2t_keras.data.generated import open_generated
from t2t_keras.data.plain_text import plain_text
from t2t_keras.errors import UserError

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


@pytest.fixture(scope="module")
def small(load_module):
    return load_module(Path(__file__).parent / "small_wmt.py")


@pytest.fixture(scope="module", params=[False, True], ids=["plain dev", "odd SGML"])
def tmp_dir(request, small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("archives")
    markup = small.odd_sgml if request.param else small.sgml
    small.write_archives(folder, dev_in_sgml=request.param, markup=markup)
    return folder


@pytest.fixture(autouse=True)
def no_tfds(monkeypatch, tmp_path):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))


def pairs_of(generated, split):
    store, decode = generated.store(split), generated.tokenizer.decode
    return tuple(decode(map(read, range(len(store)))) for read in (store.source, store.target))


@pytest.mark.parametrize(
    ("name", "other", "config"),
    [
        ("translate_ende", "de", ""),
        ("translate_ende", "de", "newstest2014=filtered"),
        ("translate_ende_rev", "de", ""),
        ("translate_ende_rev", "de", "newstest2014=filtered"),
        ("translate_enfr", "fr", ""),
    ],
)
def test_the_whole_of_datagen(small, tmp_dir, tmp_path, name, other, config):
    problem = registry.problem(name, f"vocab_size=340,{config}")
    generate(problem, tmp_path, tmp_dir, chunk_pairs=70)
    generated = open_generated(problem, tmp_path)
    order = -1 if name.endswith("_rev") else 1
    codes = ("en", other)[::order]
    assert generated.problem.languages() == codes
    training = TRAINING[other]
    assert pairs_of(generated, "train") == tuple(
        [line for corpus, count in training.items() for line in small.lines(code, corpus, count)]
        for code in codes
    )
    edition = "filtered" if config and order == 1 else "full"
    for split, text in (("dev", "newstest2013"), ("test", edition)):
        count = small.TEST_LINES[text]
        assert generated.text(split) == tuple(small.lines(code, text, count) for code in codes)
        assert generated.manifest["splits"][split]["left_out"] == {}
    assert generated.problem.text_source == "archives"


def test_the_full_edition_has_an_archive_of_its_own(small, tmp_path):
    small.write_archives(tmp_path)
    problem = registry.problem("translate_ende")
    (pair,) = problem.files(tmp_path)["test"]
    assert pair.source.name == "dev.tgz"
    small.archive(tmp_path / "test-full.tgz", small.newstest2014("full", "test-full/", "de"))
    (pair,) = problem.files(tmp_path)["test"]
    assert pair.target.name == "test-full.tgz"
    assert pair.target.members == ("newstest2014-deen-ref.de.sgm",)


@pytest.mark.parametrize("name", ["translate_ende", "translate_ende_rev"])
@pytest.mark.parametrize("there", [("src.en", "ref.de"), ("src.de", "ref.en")])
def test_newstest2014_in_dev_tgz_of_one_direction(small, tmp_path, name, there):
    members = small.newstest2014("full", "dev/", "de")
    some = {each: text for each, text in members.items() if each.split("-")[-1][:-4] in there}
    assert len(some) == 2
    small.archive(tmp_path / "dev.tgz", some)
    test = registry.problem(name).files(tmp_path)["test"]
    [paths] = plain_text(test, {"dev.tgz": tmp_path / "dev.tgz"}, tmp_path)
    for code, path in zip(("en", "de"), paths, strict=True):
        assert path.read_text().splitlines() == small.lines(code, "full", small.TEST_LINES["full"])


def test_scores_say_which_edition():
    full, filtered = (
        registry.problem("translate_ende", f"newstest2014={edition}")
        for edition in ("full", "filtered")
    )
    assert full.text_name("dev", 3000) == "newstest2013 (3,000 lines)"
    assert full.text_name("test", 3003) == "newstest2014, full edition (3,003 lines)"
    assert filtered.text_name("test", 2737) == "newstest2014, filtered edition (2,737 lines)"
    to_english = registry.problem("translate_ende_rev", "newstest2014=filtered")
    assert to_english.text_name("test", 3003) == "newstest2014, filtered edition (3,003 lines)"
    wrong = "newstest2014, full edition (2,737 lines; as published it has 3,003)"
    assert full.text_name("test", 2737) == wrong
    assert full.text_name("", 3003) == ""
    french = registry.problem("translate_enfr")
    assert french.text_name("test", 3003) == "newstest2014 (3,003 lines)"


def test_the_paper_s_vocabularies():
    sizes = {
        "translate_ende": (37_000, "bpe"),
        "translate_enfr": (32_000, "unigram"),
        "translate_ende_wmt32k": (32_768, "unigram"),
        "translate_ende_wmt_bpe32k": (37_000, "bpe"),
        "translate_enfr_wmt32k": (32_768, "unigram"),
    }
    for name, expected in sizes.items():
        for suffix in ("", "_rev"):
            problem = registry.problem(name + suffix)
            assert (problem.vocab_size, problem.vocab_kind) == expected
            assert problem.languages()[:: -1 if suffix else 1] == ("en", name[12:14])


def no_network(*_, **__):
    raise OSError("no network")


def test_missing_archives_are_listed_together(tmp_path, monkeypatch):
    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    with pytest.raises(UserError) as caught:
        generate(registry.problem("translate_enfr"), tmp_path / "data", tmp_path)
    message = str(caught.value)
    assert f"Source files are missing in {tmp_path}" in message
    listed = {
        "training-parallel-europarl-v7.tgz": "657,632,379",
        "training-parallel-commoncrawl.tgz": "918,311,367",
        "training-parallel-un.tgz": "2,365,634,246",
        "training-parallel-nc-v9.tgz": "80,418,416",
        "training-giga-fren.tar": "2,595,102,720",
        "dev.tgz": "38,654,961",
    }
    for (name, size), line in zip(listed.items(), message.splitlines()[1:], strict=True):
        assert line.startswith(f"  {name}  (http://")
        assert f"/{name}, {size} bytes, sha256 " in line
    # Of newstest2014's own archives no size is known.
    with pytest.raises(UserError) as caught:
        generate(registry.problem("translate_ende", "newstest2014=filtered"), tmp_path, tmp_path)
    listed = [line for line in str(caught.value).splitlines() if "test-filtered.tgz" in line]
    (url,), (md5,) = DATASETS["wmt14"].data, DATASETS["wmt14"].md5
    assert listed == [f"  test-filtered.tgz  ({url}, md5 {md5})"]


def test_the_official_sizes_and_checksums_are_those_of_tensorflow_datasets(tmp_path):
    tfds = pytest.importorskip("tensorflow_datasets")
    infos = {}
    for name in ("wmt14_translate", "wmt15_translate"):
        folder = Path(tfds.__file__).parent / "url_checksums"
        for line in (folder / f"{name}.txt").read_text().splitlines():
            url, size, checksum, _ = line.split("\t")
            infos[url] = int(size), checksum
    for name in ("translate_ende", "translate_enfr"):
        files = registry.problem(name, "text_source=archives").files(tmp_path)
        for pair in files["train"] + files["dev"]:
            assert infos[pair.source.url] == (pair.source.size, pair.source.sha256)


@pytest.mark.parametrize(("edition", "dataset"), [("full", "wmt14/full"), ("filtered", "wmt14")])
def test_the_test_sets_are_those_of_sacrebleu(tmp_path, edition, dataset):
    known = DATASETS[dataset]
    # The full edition is taken from its own archive where that stands there.
    (tmp_path / "test-full.tgz").touch()
    for name, pair in (("translate_ende", "en-de"), ("translate_ende_rev", "de-en")):
        problem = registry.problem(name, f"text_source=archives,newstest2014={edition}")
        (test,) = problem.files(tmp_path)["test"]
        sides = (test.source, test.target)[:: -1 if problem.reverse else 1]
        assert [side.members for side in sides] == [
            (path.split("/")[1],) for path in known.langpairs[pair]
        ]
        for side in sides:
            assert ([side.url], [side.md5]) == (known.data, known.md5)
            assert side.name == side.url.rpartition("/")[2]
