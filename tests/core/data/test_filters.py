import runpy
import sys

import numpy as np
import pytest
from refusals import refused

from t2t_keras.data import filters
from t2t_keras.data.chunks import ExampleChunk
from t2t_keras.data.dataset import open_generated
from t2t_keras.data.filters import (
    check_direction,
    check_filters,
    duplicate_mask,
    in_other_language,
    pair_hashes,
)
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem

ENGLISH = "The old house stands near a tall green tree and nobody lives in it."
GERMAN = "Das alte Haus steht bei einem hohen grünen Baum und niemand wohnt darin."
FRENCH = "La vieille maison est près d'un grand arbre vert et personne n'y habite."
PAIRS = [
    (ENGLISH, GERMAN),
    ("Yes.", "Ja."),
    (ENGLISH, GERMAN + " "),  # came before
    (ENGLISH, FRENCH),  # in another language
    (GERMAN, ENGLISH),  # in another language
    (GERMAN, GERMAN),  # identical, and in another language
    ("Berlin ", "Berlin"),  # identical
    ("1234", "5678"),
    ("No.", GERMAN + GERMAN),  # uneven
    ("Yes.", "Ja."),  # came before
    ("", "Ja."),
    ("Yes.", "Jawohl."),
]


@pytest.fixture
def tmp_dir(tmp_path):
    for split in ("train", "dev"):
        for side, code in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in PAIRS)
            (tmp_path / f"{split}.{code}").write_text(text)
    return tmp_path


def generated_with(names, tmp_dir, pairs_of, **options):
    config = f"source_language=en,target_language=de,vocab_size=320,filters={names}"
    problem = make_problem("parallel_text", config)
    manifest = generate(problem, tmp_dir / "data", tmp_dir, **options)
    return pairs_of(open_generated(problem, tmp_dir / "data"), "train"), manifest


LEFT_OUT = {
    "duplicates": ("that came before", [2, 9]),
    "identical": ("with identical sides", [5, 6]),
    "language": ("in another language", [3, 4, 5]),
    "length_ratio": ("with a side over 3 times as long as the other", [8]),
}


@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in LEFT_OUT), ("duplicates", {"chunk_pairs": 3, "num_workers": 2})],
)
def test_each_filter(tmp_dir, pairs_of, name, options):
    reason, indices = LEFT_OUT[name]
    pairs, manifest = generated_with(name, tmp_dir, pairs_of, **options)
    splits = manifest["splits"]
    assert pairs == [pair for n, pair in enumerate(PAIRS) if n not in (*indices, 10)]
    side = "de" if name == "length_ratio" else "en"
    first = [f"{tmp_dir.name}/train.{side}:{n + 1}" for n in indices]
    assert splits["train"]["left_out"] == {
        "with an empty side": {"count": 1, "first": [f"{tmp_dir.name}/train.en:11"]},
        reason: {"count": len(indices), "first": first},
    }
    # Dev sets are not filtered.
    assert splits["dev"]["examples"] == len(PAIRS) - 1
    # The package that judges is recorded.
    assert ("py3langid" in manifest["versions"]) == (name == "language")


def test_all_of_them_count_a_pair_once(tmp_dir, pairs_of):
    names = "[language, length_ratio, identical, duplicates]"
    pairs, manifest = generated_with(names, tmp_dir, pairs_of)
    assert pairs == [PAIRS[number] for number in (0, 1, 7, 11)]
    left_out = manifest["splits"]["train"]["left_out"]
    assert sorted(entry["count"] for entry in left_out.values()) == [1, 1, 2, 2, 2]
    assert left_out["in another language"]["count"] == 2


def test_languages_of_real_text(shared_data):
    def pairs_of(name, language):
        lines = (shared_data / "wmt" / f"newstest2013.{name}").read_text().splitlines()
        return sum(in_other_language(lines[:150], language))

    assert pairs_of("en-de.en", "en") <= 1
    assert pairs_of("en-de.de", "de") <= 1
    assert pairs_of("en-fr.fr", "de_AT") >= 135


def corpus(pairs, order=1, **shared):
    return ExampleChunk(tuple(pair[::order] for pair in pairs), 1, corpus="news", **shared)


@pytest.mark.parametrize("languages", [("en", "de"), ("en", "fr")])
def test_no_corpus_of_real_text_is_swapped_until_it_is(shared_data, languages):
    actual = 0
    for source in sorted(shared_data.glob("*/*.en")):
        if not (target := source.with_suffix(f".{languages[1]}")).exists():
            continue
        lines = (path.read_text().split("\n")[:4000] for path in (source, target))
        pairs = list(zip(*lines, strict=True))
        check_direction([corpus(pairs)], languages)
        with refused("swapped_languages", " news ", f"'{languages[1]}'", "'en'"):
            check_direction([corpus(pairs, -1, languages=languages)], ("fr", "en"))
        actual += 1
    assert actual > 5


def test_of_what_does_not_tell_the_direction_nothing_is_said():
    pairs = [(ENGLISH, GERMAN)] * 20
    with refused("swapped_languages", " news "):
        check_direction([corpus(pairs), corpus(pairs[:2])], ("de-AT", "en_GB"))
    half = pairs[:10] + [(GERMAN, ENGLISH)] * 10
    blank = pairs[:19] + [(" ", "\u200b")] * 9
    for some in (pairs[:19], half, blank, [("GPL-2", "12.5")] * 99, [(ENGLISH, ENGLISH)] * 99):
        check_direction([corpus(some)], ("de", "en"))
    for unknown in (("de", "trees"), ("", ""), ("en_GB", "en_US")):
        check_direction([corpus(pairs)], unknown)


def test_duplicates_are_those_of_a_set():
    random = np.random.default_rng(1)
    values = random.integers(0, 1 << 63, 300, dtype=np.uint64) * np.uint64(2)
    hashes = random.choice(values, 2000)
    assert duplicate_mask(hashes).tolist() == [
        pair_hash in hashes[:n] for n, pair_hash in enumerate(hashes)
    ]
    chunk = ExampleChunk((("a", "b"), ("ab", ""), ("a", "b "), ("", "ab")), 1)
    assert duplicate_mask(pair_hashes(chunk)).tolist() == [False, False, True, False]
    chunk = ExampleChunk((("caf\u00e9", "b"), ("cafe\u0301", "b"), ("\ud800", "b")), 1)
    assert duplicate_mask(pair_hashes(chunk)).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("names", "code", "names_in_text"),
    [
        (["duplicate"], "unknown_name", ["'duplicate'", "'duplicates'"]),
        (["identical", "language"], "unknown_language", ["'xx'", " de, ", " en, "]),
    ],
)
def test_filters_that_there_are_not(names, code, names_in_text):
    with refused(code, *names_in_text):
        check_filters(names, ("en", "xx"))


def test_regions_and_case_of_a_language_do_not_count():
    check_filters(["language"], ("EN", "de_AT", "Fr-CA"))
    for code in ("EN-gb", "en_US"):
        assert in_other_language([ENGLISH, GERMAN, "Berlin"], code) == [False, True, False]


def test_without_the_package_that_judges(monkeypatch):
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    # A fresh copy of the module, which does not know the package yet.
    module = runpy.run_path(filters.__file__)
    with refused("missing_package", "py3langid", "pip install -e '.[language]'"):
        module["check_filters"](["language"], ("en", "de"))
    module["check_direction"]([corpus([(ENGLISH, GERMAN)] * 20)], ("de", "en"))


def left_out_of(tmp_path, source, target, **config):
    """What is left out of two pairs, of which the second is short; letters are tokens."""
    for name, line in {"train.en": source, "train.de": target}.items():
        (tmp_path / name).write_text(f"{line}\na\n")
    for name in ("dev.en", "dev.de"):
        (tmp_path / name).write_text("a\n")
    config |= dict(source_language="en", target_language="de")
    config |= dict(vocab_kind="char")
    manifest = generate(make_problem("parallel_text", config), tmp_path / "data", tmp_path)
    return list(manifest["splits"]["train"]["left_out"].values())


@pytest.mark.parametrize(("most", "left_out"), [(4.0, 0), (3.9, 1), (3.0, 1)])
def test_a_ratio_does_not_count_the_end_of_sentence(tmp_path, most, left_out):
    # 1 and 4 tokens with their ends would be 2 and 5.
    config = dict(filters=("length_ratio",), max_length_ratio=most)
    assert len(left_out_of(tmp_path, "a", "aaaa", **config)) == left_out


@pytest.mark.parametrize(
    ("source", "target", "side"),
    [("aa", "aaa", "de"), ("aaa", "a", "en"), ("aaa", "aaaa", "en")],
)
def test_the_side_that_is_too_long_is_named(tmp_path, source, target, side):
    (entry,) = left_out_of(tmp_path, source, target, max_pair_length=3)
    assert entry == {"count": 1, "first": [f"{tmp_path.name}/train.{side}:1"]}
