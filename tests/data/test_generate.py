import dataclasses
import json

import numpy as np
import pytest

from t2t_keras import registry
from t2t_keras.data.generate import generate
from t2t_keras.data.generated import open_generated
from t2t_keras.data.manifest import verify
from t2t_keras.data.problem import Problem
from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.errors import UserError

SIZES = {"train": 230, "dev": 25, "test": 12}
CONFIG = "source_language=en,target_language=de,vocab_size=330"


def sentence(language, split, number):
    words = {"en": ("the", "house", "stands", "near"), "de": ("das", "Haus", "steht", "bei")}
    return " ".join([*words[language], split, str(number * number), words[language][number % 4]])


def write_text(tmp_dir, change=None):
    """Writes train, dev and test files; `change(name, lines)` alters the lines before."""
    tmp_dir.mkdir(exist_ok=True)
    for split, size in SIZES.items():
        for language in ("en", "de"):
            name = f"{split}.{language}"
            lines = [sentence(language, split, number).encode() for number in range(size)]
            if change:
                change(name, lines)
            (tmp_dir / name).write_bytes(b"".join(line + b"\n" for line in lines))


@pytest.fixture
def tmp_dir(tmp_path):
    write_text(tmp_path / "text")
    return tmp_path / "text"


@pytest.fixture
def problem():
    return registry.problem("parallel_text", CONFIG)


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def pairs_of(generated, split):
    store, decode = generated.store(split), generated.tokenizer.decode
    sides = (decode(map(read, range(len(store)))) for read in (store.source, store.target))
    return list(zip(*sides, strict=True))


def test_what_is_written_is_what_was_read(problem, tmp_dir, tmp_path, capsys):
    manifest = generate(problem, tmp_path, tmp_dir, chunk_pairs=50)
    generated = open_generated(problem, tmp_path)
    assert generated.manifest == manifest == json.loads(json.dumps(manifest))
    for split, size in SIZES.items():
        expected = [
            (sentence("en", split, number), sentence("de", split, number)) for number in range(size)
        ]
        assert pairs_of(generated, split) == expected
        if split != "train":
            assert list(zip(*generated.text(split), strict=True)) == expected
            for side, language in (("source", "en"), ("target", "de")):
                written = (generated.directory / f"{split}.{side}.txt").read_bytes()
                assert written == (tmp_dir / f"{split}.{language}").read_bytes()
        summary = manifest["splits"][split]
        lengths = generated.store(split).lengths
        assert summary["examples"] == size
        assert [summary["source_tokens"], summary["target_tokens"]] == lengths.sum(0).tolist()
        assert summary["left_out"] == {}
    assert len(manifest["splits"]["train"]["shards"]) == 5
    assert manifest["vocabulary"]["size"] == generated.tokenizer.vocab_size == 330
    assert manifest["vocabulary"]["sha256"] == generated.tokenizer.checksum
    assert manifest["config"]["vocab_size"] == 330
    assert set(manifest["files"]) | {"manifest.json"} == set(contents(generated.directory))
    assert "train: 230 pairs in 5 shards" in capsys.readouterr().out


def test_reverse_swaps_the_sides(problem, tmp_dir, tmp_path):
    swapped = registry.problem("parallel_text_rev", CONFIG)
    assert swapped.languages() == problem.languages()[::-1] == ("de", "en")
    generate(problem, tmp_path, tmp_dir)
    generate(swapped, tmp_path, tmp_dir)
    forwards, backwards = (open_generated(each, tmp_path) for each in (problem, swapped))
    assert forwards.directory != backwards.directory
    for split in SIZES:
        assert pairs_of(backwards, split) == [pair[::-1] for pair in pairs_of(forwards, split)]
    assert backwards.text("dev") == forwards.text("dev")[::-1]


def test_the_number_of_workers_changes_nothing(problem, tmp_path):
    def spoil(name, lines):
        if name == "train.en":
            lines[7::20] = [b"\xff"] * len(lines[7::20])

    write_text(tmp_path / "text", spoil)
    for workers in (1, 2, 3):
        generate(problem, tmp_path / str(workers), tmp_path / "text", workers, chunk_pairs=30)
    one, two, three = (contents(tmp_path / str(n) / "parallel_text") for n in (1, 2, 3))
    assert one == two == three
    assert json.loads(one["manifest.json"])["splits"]["train"]["left_out"] == {
        "with invalid UTF-8": {
            "count": 12,
            "first": [f"text/train.en:{number}" for number in (8, 28, 48, 68, 88)],
        }
    }


def test_what_cannot_be_used_is_left_out_and_counted(problem, tmp_path, capsys):
    long = b"x y " * 300
    spoiled = {
        "train.en": {3: b"na\xefve", 4: b"", 60: b"\xc3", 70: long},
        "train.de": {4: b"", 5: b" \t ", 6: b"\xa0", 71: long, 72: b"\xe4" + long, 229: b""},
        "dev.en": {0: long, 2: b"", 24: b"\xff"},
        "dev.de": {1: long},
    }

    def spoil(name, lines):
        for number, line in spoiled.get(name, {}).items():
            lines[number] = line

    write_text(tmp_path / "text", spoil)
    manifest = generate(problem, tmp_path, tmp_path / "text", chunk_pairs=64)
    train, dev = manifest["splits"]["train"], manifest["splits"]["dev"]
    assert train["left_out"] == {
        "with invalid UTF-8": {
            "count": 4,
            "first": ["text/train.en:4", "text/train.de:7", "text/train.en:61", "text/train.de:73"],
        },
        "with an empty side": {
            "count": 3,
            "first": ["text/train.en:5", "text/train.de:6", "text/train.de:230"],
        },
        "longer than max_pair_length=512 tokens": {
            "count": 2,
            "first": ["text/train.en:71", "text/train.de:72"],
        },
    }
    assert train["examples"] == 230 - 9
    # Long sentences stay in dev: without them it would be another dev set.
    assert dev["examples"] == 25 - 2
    assert dev["left_out"] == {
        "with an empty side": {"count": 1, "first": ["text/dev.en:3"]},
        "with invalid UTF-8": {"count": 1, "first": ["text/dev.en:25"]},
    }
    generated = open_generated(problem, tmp_path)
    sources, references = generated.text("dev")
    assert sources[0] == references[1] == long.decode()
    assert pairs_of(generated, "dev") == list(zip(sources, references, strict=True))
    kept = [n for n in range(230) if n not in (3, 4, 5, 6, 60, 70, 71, 72, 229)]
    assert [source for source, _ in pairs_of(generated, "train")] == [
        sentence("en", "train", number) for number in kept
    ]
    printed = capsys.readouterr().out
    assert (
        "left out: 3 with an empty side (text/train.en:5, text/train.de:6, text/train.de:230)"
        in printed
    )
    assert "left out: 2 longer than max_pair_length=512 tokens (text/train.en:71" in printed


def test_exactly_the_longest_pair_is_kept(problem, tmp_dir, tmp_path):
    generate(problem, tmp_path, tmp_dir)
    longest = int(open_generated(problem, tmp_path).store("train").lengths.max())
    for limit, complete in ((longest, True), (longest - 1, False)):
        limited = dataclasses.replace(problem, max_pair_length=limit)
        manifest = generate(limited, tmp_path, tmp_dir)
        assert (manifest["splits"]["train"]["left_out"] == {}) == complete
        assert open_generated(limited, tmp_path).store("train").lengths.max() <= limit


def test_line_ends_of_windows_and_byte_order_mark(problem, tmp_dir, tmp_path):
    generate(problem, tmp_path / "plain", tmp_dir)
    for path in tmp_dir.iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    generate(problem, tmp_path / "windows", tmp_dir)
    plain, windows = (contents(tmp_path / each / "parallel_text") for each in ("plain", "windows"))
    assert plain == windows


def test_unicode_line_separators_do_not_split_lines(problem, tmp_path):
    odd = "the house\u2028stands\u0085near\x0b\x0c\x1cit\r here".encode()

    def spoil(name, lines):
        if name in ("train.en", "dev.de"):
            lines[5] = odd

    write_text(tmp_path / "text", spoil)
    generate(problem, tmp_path, tmp_path / "text")
    generated = open_generated(problem, tmp_path)
    assert pairs_of(generated, "train")[5] == (odd.decode(), sentence("de", "train", 5))
    assert generated.text("dev")[1][5] == odd.decode()
    assert len(generated.text("dev")[1]) == 25


@pytest.mark.parametrize("name", ["train.de", "dev.en", "test.de"])
def test_files_with_different_numbers_of_lines(problem, tmp_dir, tmp_path, name):
    generate(problem, tmp_path, tmp_dir)
    with (tmp_dir / name).open("ab") as file:
        file.write(b"one too many\n")
    split = name.split(".")[0]
    counts = [SIZES[split] + (name == f"{split}.{language}") for language in ("en", "de")]
    message = rf"{split}\.en has {counts[0]} lines and .*{split}\.de has {counts[1]}:"
    with pytest.raises(UserError, match=message):
        generate(problem, tmp_path, tmp_dir)
    with pytest.raises(UserError, match="incomplete"):
        open_generated(problem, tmp_path)


def test_a_split_without_a_usable_pair(problem, tmp_dir, tmp_path):
    (tmp_dir / "dev.en").write_bytes(b"\n" * 25)
    with pytest.raises(UserError, match="dev split has no usable pair; left out: 25 with an empty"):
        generate(problem, tmp_path, tmp_dir)
    with pytest.raises(UserError, match="incomplete"):
        open_generated(problem, tmp_path)
    for language in ("en", "de"):
        (tmp_dir / f"dev.{language}").write_bytes(b"")
    with pytest.raises(
        UserError, match="dev split has no usable pair; left out: none, it is empty"
    ):
        generate(problem, tmp_path, tmp_dir)


def test_vocabulary_of_some_lines_only(problem, tmp_dir, tmp_path):
    few = dataclasses.replace(problem, vocab_lines=100)
    generate(few, tmp_path, tmp_dir, chunk_pairs=50)
    # 230 lines, at most 100: every third one.
    kept = [
        sentence(language, "train", number)
        for number in range(0, 230, 3)
        for language in ("en", "de")
    ]
    expected = Tokenizer.train(kept, 330, "bpe")
    assert open_generated(few, tmp_path).tokenizer.checksum == expected.checksum


def test_a_vocabulary_is_reused(problem, tmp_dir, tmp_path):
    generate(problem, tmp_path, tmp_dir)
    first = open_generated(problem, tmp_path).tokenizer
    path = tmp_path / "mine.model"
    path.write_bytes(first.model_bytes)
    for line in ("train.en", "train.de"):
        (tmp_dir / line).write_text("another text\n" * 3)
    again = dataclasses.replace(problem, vocab_file=str(path), vocab_size=8000)
    manifest = generate(again, tmp_path, tmp_dir)
    assert manifest["vocabulary"] == {
        "file": "vocab.model", "size": 330, "sha256": first.checksum
    }  # fmt: skip
    # The same vocabulary under another path is no difference; another one is.
    moved = tmp_path / "moved.model"
    moved.write_bytes(first.model_bytes)
    open_generated(dataclasses.replace(again, vocab_file=str(moved)), tmp_path)
    moved.write_bytes(Tokenizer.train(["abc abd"] * 9, 270).model_bytes)
    with pytest.raises(UserError, match=r"vocab_file=.*mine\.model there, vocab_file=.*moved"):
        open_generated(dataclasses.replace(again, vocab_file=str(moved)), tmp_path)


def test_a_vocabulary_may_stand_where_the_data_goes(problem, tmp_dir, tmp_path):
    generate(problem, tmp_path, tmp_dir)
    first = open_generated(problem, tmp_path).tokenizer
    own = dataclasses.replace(problem, vocab_file=str(tmp_path / "parallel_text" / "vocab.model"))
    assert generate(own, tmp_path, tmp_dir)["vocabulary"]["sha256"] == first.checksum


def test_a_vocabulary_that_cannot_be_used_leaves_the_old_data(problem, tmp_dir, tmp_path):
    generate(problem, tmp_path, tmp_dir)
    with pytest.raises(UserError, match=r"none\.model cannot be read"):
        generate(dataclasses.replace(problem, vocab_file="none.model"), tmp_path, tmp_dir)
    open_generated(problem, tmp_path)


def test_other_settings_are_named(problem, tmp_dir, tmp_path):
    generate(problem, tmp_path, tmp_dir)
    other = registry.problem(
        "parallel_text",
        "source_language=en,target_language=fr,vocab_size=331,max_pair_length=512",
    )
    with pytest.raises(UserError) as caught:
        open_generated(other, tmp_path)
    assert "target_language=de there, target_language=fr asked for" in str(caught.value)
    assert "vocab_size=330 there, vocab_size=331 asked for" in str(caught.value)
    assert "max_pair_length" not in str(caught.value)
    assert "another --data_dir" in str(caught.value)


def test_no_data_names_the_command(problem, tmp_path):
    with pytest.raises(
        UserError, match=f"t2t-datagen --problem=parallel_text --data_dir={tmp_path}"
    ):
        open_generated(problem, tmp_path)


def test_text_of_a_split_that_is_not_there(problem, tmp_dir, tmp_path):
    for language in ("en", "de"):
        (tmp_dir / f"test.{language}").unlink()
    generate(problem, tmp_path, tmp_dir)
    generated = open_generated(problem, tmp_path)
    for split in ("test", "train"):
        with pytest.raises(UserError, match=f"no text of a '{split}' split; it has dev"):
            generated.text(split)


def test_no_tmp_dir(problem, tmp_path):
    with pytest.raises(UserError, match="Please give --tmp_dir"):
        generate(problem, tmp_path)


def test_number_of_workers_is_checked(problem, tmp_dir, tmp_path):
    with pytest.raises(UserError, match="--num_workers is at least 1; 0 came"):
        generate(problem, tmp_path, tmp_dir, 0)


@pytest.mark.parametrize("name", ["train-00001.tokens.npy", "dev.source.txt", "vocab.model"])
@pytest.mark.parametrize("change", ["flip", "remove"])
def test_verify_finds_every_damage(problem, tmp_dir, tmp_path, name, change):
    manifest = generate(problem, tmp_path, tmp_dir, chunk_pairs=100)
    path = tmp_path / "parallel_text" / name
    content = bytearray(path.read_bytes())
    path.unlink()
    if change == "flip":
        content[-2] ^= 1
        path.write_bytes(content)
    with pytest.raises(UserError, match=rf"damaged: {name} \((differs|missing)\)\."):
        verify(path.parent, manifest)
    if name == "vocab.model":
        with pytest.raises(UserError, match=r"vocab\.model is (not|missing)"):
            _ = open_generated(problem, tmp_path).tokenizer


@dataclasses.dataclass(frozen=True)
class Counting(Problem):
    vocab_size: int = 300
    name: str = "counting"

    def examples(self, split):
        for number in range(SIZES[split]):
            yield sentence("en", split, number), sentence("de", split, number)
        if split == "train":
            yield "a line\nbreak", "inside"
            yield "a lone \ud800 surrogate", "here"


def test_a_problem_that_makes_its_text(tmp_path):
    made, swapped = Counting(), Counting(name="counting_rev", reverse=True)
    for workers in (1, 2):
        manifest = generate(made, tmp_path / str(workers), num_workers=workers, chunk_pairs=100)
    assert contents(tmp_path / "1" / "counting") == contents(tmp_path / "2" / "counting")
    assert len(manifest["splits"]["train"]["shards"]) == 3
    assert manifest["splits"]["train"]["left_out"] == {
        "with a line break inside": {"count": 1, "first": ["example:231"]},
        "with invalid UTF-8": {"count": 1, "first": ["example:232"]},
    }
    generated = open_generated(made, tmp_path / "1")
    expected = [(sentence("en", "train", n), sentence("de", "train", n)) for n in range(230)]
    assert pairs_of(generated, "train") == expected
    generate(swapped, tmp_path)
    assert pairs_of(open_generated(swapped, tmp_path), "test") == [
        (sentence("de", "test", n), sentence("en", "test", n)) for n in range(12)
    ]


def test_a_problem_without_text(tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Nothing(Problem):
        name: str = "nothing"

    with pytest.raises(NotImplementedError, match="Nothing overrides neither files nor examples"):
        generate(Nothing(), tmp_path)


def test_score_is_sacrebleus(problem):
    import sacrebleu

    hypotheses, references = ["The house stands here."] * 2, ["The house stands near here."] * 2
    expected = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="13a").score
    assert problem.score(hypotheses, references).bleu == pytest.approx(expected)
    assert np.isclose(problem.score(references, references).bleu, 100)
