import sys
import tracemalloc

import numpy as np
import pytest

from t2t_keras import registry
from t2t_keras.data import filters
from t2t_keras.data import generate as generate_module
from t2t_keras.data.chunks import ExampleChunk
from t2t_keras.data.filters import Languages, came_before, filter_names, pair_hashes
from t2t_keras.data.generate import generate
from t2t_keras.data.generated import open_generated
from t2t_keras.errors import UserError

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
    ("Berlin", "Berlin"),  # identical
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


def generated_with(names, tmp_dir, tmp_path, **options):
    config = f"source_language=en,target_language=de,vocab_size=320,filters={names}"
    problem = registry.problem("parallel_text", config)
    data_dir = tmp_path / f"data {names} {len(options)}"
    generate(problem, data_dir, tmp_dir, **options)
    generated = open_generated(problem, data_dir)
    store, decode = generated.store("train"), generated.tokenizer.decode
    sources = decode(map(store.source, range(len(store))))
    kept = list(zip(sources, decode(map(store.target, range(len(store)))), strict=True))
    return kept, generated.manifest["splits"]


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
def test_each_filter(tmp_dir, tmp_path, name, options):
    reason, indices = LEFT_OUT[name]
    kept, splits = generated_with(name, tmp_dir, tmp_path, **options)
    gone = {*indices, 10}
    assert kept == [pair for number, pair in enumerate(PAIRS) if number not in gone]
    side = "de" if name == "length_ratio" else "en"
    assert splits["train"]["left_out"] == {
        "with an empty side": {"count": 1, "first": [f"{tmp_dir.name}/train.en:11"]},
        reason: {
            "count": len(indices),
            "first": [f"{tmp_dir.name}/train.{side}:{n + 1}" for n in indices],
        },
    }
    # Dev sets are not filtered.
    assert splits["dev"]["examples"] == len(PAIRS) - 1


def test_all_of_them_count_a_pair_once(tmp_dir, tmp_path, capsys):
    kept, splits = generated_with("language+length_ratio+identical+duplicates", tmp_dir, tmp_path)
    assert kept == [PAIRS[number] for number in (0, 1, 7, 11)]
    counts = {reason: entry["count"] for reason, entry in splits["train"]["left_out"].items()}
    assert sorted(counts.values()) == [1, 1, 2, 2, 2]
    places = f"{tmp_dir.name}/train.en:4, {tmp_dir.name}/train.en:5"
    assert f"left out: 2 in another language ({places})" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("filters", "judging"), [("language", {"py3langid"}), ("identical", set())]
)
def test_the_package_that_judges_is_recorded(tmp_dir, tmp_path, filters, judging):
    config = f"source_language=en,target_language=de,vocab_size=320,filters={filters}"
    problem = registry.problem("parallel_text", config)
    versions = generate(problem, tmp_path / "data", tmp_dir)["versions"]
    assert versions.keys() & {"py3langid"} == judging


def test_languages_of_real_text(shared_data):
    folder = shared_data / "wmt"
    text = {
        code: (folder / f"newstest2013.en-{code if code != 'en' else 'de'}.{code}")
        .read_text()
        .splitlines()[:150]
        for code in ("en", "de", "fr")
    }
    wrong = Languages(("en", "de")).other(text["en"], text["de"])
    assert sum(wrong) <= 2
    seen = Languages(("en", "de")).other(text["en"], text["fr"])
    assert sum(seen) >= 0.9 * len(seen)


def test_duplicates_are_those_of_a_set():
    random = np.random.default_rng(1)
    values = random.integers(0, 1 << 63, 300, dtype=np.uint64) * np.uint64(2)
    hashes = random.choice(values, 2000)
    seen, expected = set(), []
    for value in hashes.tolist():
        expected.append(value in seen)
        seen.add(value)
    parts = came_before(np.split(hashes, [0, 700, 701, 1500]))
    assert np.concatenate(parts).tolist() == expected
    assert list(map(len, parts)) == [0, 700, 1, 799, 500]
    assert came_before([]) == []
    chunk = ExampleChunk((("a", "b"), ("ab", ""), ("a", "b "), ("", "ab")), 1)
    first, second, third, fourth = pair_hashes(chunk).tolist()
    assert first == third
    assert len({first, second, fourth}) == 3


def test_duplicates_take_at_most_16_bytes_a_pair(monkeypatch):
    """Hashes, what is computed of them and the flags of all chunks, as they wait together."""
    pairs = 400_000
    chunks = [ExampleChunk((), first) for first in range(0, pairs, 50_000)]
    random = np.random.default_rng(1)

    def hashes(chunk):
        return random.integers(0, 1 << 63, 50_000, dtype=np.uint64) * np.uint64(2)

    monkeypatch.setattr(generate_module, "pair_hashes", hashes)
    # What is imported on the first call is not counted.
    generate_module._with_repeats(chunks[:1], 1)
    tracemalloc.start()
    waiting = generate_module._with_repeats(chunks, 1)
    left, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * pairs
    # While the text is encoded, a bit a pair is left.
    assert left < 0.2 * pairs
    assert [len(chunk.repeated()) for chunk in waiting] == [50_000] * 8


def test_names_are_checked(tmp_dir, tmp_path, monkeypatch):
    assert filter_names(" identical + language ") == ("identical", "language")
    assert filter_names("") == ()
    with pytest.raises(UserError, match=r"no filter 'duplicate'. Did you mean 'duplicates'"):
        generated_with("duplicate", tmp_dir, tmp_path)
    with pytest.raises(UserError, match=r"does not know the language 'xx'. It knows .* de, .*en"):
        Languages(("en", "xx"))
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    filters._identifier.cache_clear()
    with pytest.raises(UserError, match=r"needs py3langid .*pip install 't2t-keras\[language\]'"):
        generated_with("language", tmp_dir, tmp_path)
