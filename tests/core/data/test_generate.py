"""Generated data, and what an interrupted t2t-datagen leaves."""

import dataclasses
import errno
import json
import os
import re
import unicodedata
from pathlib import Path

import pytest
import random_lines
from refusals import refused

from t2t_keras import settings
from t2t_keras.data.chunks import chunks_by_split
from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import Problem
from t2t_keras.io.files import locked_directory
from t2t_keras.text.sources import CorpusInfo
from t2t_keras.text.tokenizer import SentencePieceTokenizer, vocabulary_settings

SIZES = {"train": 230, "dev": 25, "test": 12}


def test_what_is_written_is_what_was_read(
    problem, tmp_dir, tmp_path, change, contents, pairs_of, capsys
):
    # Lines end at line feeds alone.
    odd = "the house\u2028stands\u0085near\x0b\x0c\x1cit\r here".encode()
    for name in ("train.en", "dev.de"):
        change(name, {5: odd})
    manifest = generate(problem, tmp_path, tmp_dir, chunk_pairs=50)
    generated = open_generated(problem, tmp_path)
    assert generated.manifest == manifest == json.loads(json.dumps(manifest))
    for split, size in SIZES.items():
        written = [(tmp_dir / f"{split}.{code}").read_bytes().decode() for code in ("en", "de")]
        expected = list(zip(*(side.split("\n")[:-1] for side in written), strict=True))
        assert pairs_of(generated, split) == expected
        if split != "train":
            assert list(zip(*generated.text(split), strict=True)) == expected
            assert [path.read_bytes().decode() for path in generated.text_paths(split)] == written
        tokens = generated.open_examples(split).lengths.sum(axis=0).tolist()
        assert manifest["splits"][split] == {
            "examples": size,
            "source_tokens": tokens[0],
            "target_tokens": tokens[1],
            "shards": [f"{split}-{number:05d}" for number in range(-(-size // 50))],
            "left_out": {},
            "corpora": {split: size},
        }
    assert manifest["vocabulary"]["size"] == generated.tokenizer.vocab_size == 330
    assert manifest["vocabulary"]["sha256"] == generated.tokenizer.checksum
    assert {*manifest["files"], "manifest.json"} == set(contents(generated.directory))
    assert re.search(r"train: 230 .* 5 ", capsys.readouterr().out)


def test_corpora_are_told_apart(problem, tmp_dir, tmp_path, pairs_of, monkeypatch, capsys):
    def corpus_info(self, text):
        # As problems name them that say nothing of corpora.
        return CorpusInfo(corpus=text.corpus_name.partition(".")[0])

    monkeypatch.setattr(type(problem), "corpus_info", corpus_info)
    for code in ("en", "de"):
        lines = (tmp_dir / f"train.{code}").read_bytes().splitlines(keepends=True)
        (tmp_dir / f"web.1.{code}").write_bytes(b"".join(lines[:60]))
        (tmp_dir / f"web.2.{code}").write_bytes(b"".join(lines[60:70]))
    both = dataclasses.replace(
        problem,
        train=("web.1", "train", "web.2"),
        mix=({"web": 1}, {"train": 1}),
        mix_until=({"web": 2},),
    )
    generate(both, tmp_path, tmp_dir, chunk_pairs=50)
    assert "\n    web 70, train 230\n" in capsys.readouterr().out
    other = dataclasses.replace(
        both, mix=({"train": 0.9, "web": 0.1},), mix_until=(), augment={"upper": 0.1}
    )
    generated = open_generated(other, tmp_path)
    assert generated.corpora == {"web": 70, "train": 230}
    actual = pairs_of(generated, "train")
    assert actual[:70] == actual[70:140], "each is one run of pairs"
    assert generated.problem.mix == other.mix, "it is no matter of the data"
    for wrong, code, names in (
        (({"wbe": 1}, {"train": 1}), "unknown_name", ["'wbe'", "'web'"]),
        (({"train": 1},), "bad_value", ["mix_until=[{web: 2}]", "mix=[{train: 1}]"]),
    ):
        with refused(code, *names):
            generate(dataclasses.replace(both, mix=wrong), tmp_path, tmp_dir)
        with refused(code, *names):
            open_generated(dataclasses.replace(both, mix=wrong), tmp_path)
    with refused("given_twice", "train=[web, web]"):
        generate(dataclasses.replace(both, train=("web", "web")), tmp_path, tmp_dir)


def test_the_number_of_workers_changes_nothing(problem, tmp_dir, tmp_path, change, contents):
    change("train.en", dict.fromkeys(range(7, 230, 20), b"\xff"))
    for workers in (1, 2):
        manifest = generate(problem, tmp_path / str(workers), tmp_dir, workers, chunk_pairs=30)
    one, two = (contents(tmp_path / str(n) / "parallel_text") for n in (1, 2))
    assert one == two
    first = [f"text/train.en:{number}" for number in (8, 28, 48, 68, 88)]
    left_out = {"with invalid UTF-8": {"count": 12, "first": first}}
    assert manifest["splits"]["train"]["left_out"] == left_out


def test_what_cannot_be_used_is_left_out_and_counted(
    problem, tmp_dir, tmp_path, change, pairs_of, capsys
):
    long = b"x y " * 300
    change("train.en", {3: b"na\xefve", 4: b"", 60: b"\xc3", 70: long, 80: b"a\0b"})
    change("train.en", {90: "nai\u0308ve".encode(), 91: "\u200b".encode()})
    change("train.de", {4: b"", 5: b" \t ", 6: b"\xa0", 71: long, 72: b"\xe4" + long, 229: b""})
    change("dev.en", {0: long, 2: b"", 24: b"\xff"})
    change("dev.de", {1: long})
    manifest = generate(problem, tmp_path, tmp_dir, chunk_pairs=64)
    train, dev = manifest["splits"]["train"], manifest["splits"]["dev"]
    expected = {
        "with invalid UTF-8": ["train.en:4", "train.de:7", "train.en:61", "train.de:73"],
        "with an empty side": ["train.en:5", "train.de:6", "train.en:92", "train.de:230"],
        "longer than max_pair_length=512 tokens": ["train.en:71", "train.de:72"],
        "with a NUL byte": ["train.en:81"],
    }
    assert train["left_out"] == {
        reason: {"count": len(first), "first": [f"text/{pair}" for pair in first]}
        for reason, first in expected.items()
    }
    # Long sentences stay in dev: without them it would be another dev set.
    assert set(dev["left_out"]) == {"with an empty side", "with invalid UTF-8"}
    generated = open_generated(problem, tmp_path)
    sources, references = generated.text("dev")
    assert sources[0] == references[1] == long.decode()
    assert pairs_of(generated, "dev") == list(zip(sources, references, strict=True))
    for split, unused in (("train", (3, 4, 5, 6, 60, 70, 71, 72, 80, 91, 229)), ("dev", (2, 24))):
        lines = (tmp_dir / f"{split}.en").read_bytes().split(b"\n")[:-1]
        texts = [line.decode() for number, line in enumerate(lines) if number not in unused]
        texts = [unicodedata.normalize("NFC", line) for line in texts]
        assert [source for source, _ in pairs_of(generated, split)] == texts
    first = "text/train.en:5, text/train.de:6, text/train.en:92, text/train.de:230"
    assert re.search(rf" 4 .*\({re.escape(first)}\)", capsys.readouterr().out)


def test_an_empty_corpus_is_refused_while_old_data_is_there(problem, tmp_dir, tmp_path):
    generate(problem, tmp_path, tmp_dir)
    for name in ("more.en", "more.de"):
        (tmp_dir / name).write_bytes(b"")
    with refused("no_text", "more.en", "more.de"):
        generate(dataclasses.replace(problem, train=("train", "more")), tmp_path, tmp_dir)
    open_generated(problem, tmp_path)


def test_a_split_without_a_usable_pair(problem, tmp_dir, tmp_path):
    for name in ("dev.en", "dev.de"):
        (tmp_dir / name).write_bytes(b"\n" * 25)
    with refused("nothing_left", "dev", " 25 "):
        generate(problem, tmp_path, tmp_dir)
    with refused("incomplete_data", tmp_path):
        open_generated(problem, tmp_path)


def test_vocabulary_of_some_lines_only(problem, tmp_dir, tmp_path, change):
    few = dataclasses.replace(problem, vocab_lines=100, vocab_symbols=("<Y>", "<BT>"))
    change("train.en", {3: b"qu\0ux quux", 6: "nai\u0308ve".encode(), 9: b"\xff"})
    generate(few, tmp_path, tmp_dir, chunk_pairs=50)
    # 230 lines, at most 100: every third one, and of these not what cannot be used.
    texts = [(tmp_dir / f"train.{code}").read_bytes().split(b"\n")[:-1:3] for code in ("en", "de")]
    usable = (line for text in texts for line in text if line not in (b"qu\0ux quux", b"\xff"))
    learned = [unicodedata.normalize("NFC", line.decode()) for line in usable]
    expected = SentencePieceTokenizer.train(learned, 330, "bpe", ["<BT>", "<Y>"]).vocabulary()
    assert open_generated(few, tmp_path).tokenizer.vocabulary() == expected


def test_two_vocabularies(problem, tmp_dir, tmp_path, pairs_of):
    apart = dataclasses.replace(problem, shared_vocabulary=False, vocab_size=290)
    manifest = generate(apart, tmp_path / "first", tmp_dir)
    generated = open_generated(apart, tmp_path / "first")
    target = generated.tokenizer
    for side, code in ((target.source, "en"), (target, "de")):
        lines = (tmp_dir / f"train.{code}").read_text().splitlines()
        assert side.vocabulary() == SentencePieceTokenizer.train(lines, 290, "bpe").vocabulary()
    lines = [(tmp_dir / f"dev.{code}").read_text().splitlines() for code in ("en", "de")]
    assert pairs_of(generated, "dev") == list(zip(*lines, strict=True))
    source = manifest["vocabulary"]["source"]
    assert (source["size"], source["sha256"]) == (290, target.source.checksum)
    # Both files can be given again, and only together.
    files = [str(generated.directory / name) for name in ("vocab.model", "vocab.source.model")]
    again = settings.override(problem, vocabulary_settings(generated.directory, target))
    assert [again.vocab_file, again.source_vocab_file] == files
    same = generate(again, tmp_path / "second", tmp_dir)["vocabulary"]
    with refused("conflicting_settings", "vocab_file", "source_vocab_file"):
        open_generated(dataclasses.replace(again, vocab_file=""), tmp_path / "first")
    assert same == manifest["vocabulary"]
    for vocab_file, source_vocab_file, shared in ((*files, True), (files[0], "", False)):
        names = dict(vocab_file=vocab_file, source_vocab_file=source_vocab_file)
        with refused("conflicting_settings", "vocab_file", "source_vocab_file"):
            generate(
                dataclasses.replace(problem, shared_vocabulary=shared, **names),
                tmp_path,
                tmp_dir,
            )
    (generated.directory / "vocab.source.model").write_bytes(target.model_bytes)
    with refused("other_vocabulary"):
        _ = open_generated(apart, tmp_path / "first").tokenizer


def test_a_vocabulary_is_reused(problem, tmp_dir, tmp_path):
    generate(problem, tmp_path, tmp_dir)
    first = open_generated(problem, tmp_path).tokenizer
    for name in ("train.en", "train.de"):
        (tmp_dir / name).write_text("another text\n" * 3)
    # It may stand where the data goes.
    path = tmp_path / "parallel_text" / "vocab.model"
    again = dataclasses.replace(problem, vocab_file=str(path), vocab_size=8000)
    manifest = generate(again, tmp_path, tmp_dir, overwrite=True)
    assert manifest["vocabulary"]["sha256"] == first.checksum
    # The same vocabulary under another path is no difference; another one is.
    moved = tmp_path / "moved.model"
    moved.write_bytes(first.model_bytes)
    open_generated(dataclasses.replace(again, vocab_file=str(moved)), tmp_path)
    moved.write_bytes(SentencePieceTokenizer.train(["abc abd"] * 9, 270).model_bytes)
    with refused("other_settings", f"vocab_file: recorded {path}, requested {moved}"):
        open_generated(dataclasses.replace(again, vocab_file=str(moved)), tmp_path)
    # Of the same size, but another one.
    path.write_bytes(first.model_bytes.replace(b"house", b"HOUSE"))
    with refused("other_vocabulary", "vocab.model"):
        _ = open_generated(again, tmp_path).tokenizer
    # The one that is recorded need not be there any more.
    path.unlink()
    open_generated(again, tmp_path)
    # Text is the same whatever the vocabulary.
    with refused("other_settings", "vocab_size: recorded 8000, requested 330"):
        open_generated(problem, tmp_path)
    assert open_generated(problem, tmp_path, as_text=True).text("dev")
    with refused("other_settings", "target_language: recorded de, requested fr"):
        open_generated(dataclasses.replace(problem, target_language="fr"), tmp_path, as_text=True)


def test_exactly_the_longest_pair_is_kept(problem, tmp_dir, tmp_path):
    generate(problem, tmp_path, tmp_dir)
    longest = int(open_generated(problem, tmp_path).open_examples("train").lengths.max())
    for limit in (longest, longest - 1):
        limited = dataclasses.replace(problem, max_pair_length=limit)
        manifest = generate(limited, tmp_path / str(limit), tmp_dir)
        assert (manifest["splits"]["train"]["left_out"] == {}) == (limit == longest)


def test_other_settings_are_named(problem, tmp_dir, tmp_path):
    generate(problem, tmp_path, tmp_dir)
    other = dataclasses.replace(problem, target_language="fr", vocab_size=331)
    with refused("other_settings", "target_language: recorded de", "vocab_size", "requested 331"):
        open_generated(other, tmp_path)


@pytest.mark.parametrize(
    ("change", "options", "code", "names"),
    [
        ({"target_language": ""}, {"tmp_dir": ""}, "missing_flags", ["--tmp_dir"]),
        ({}, {"num_workers": 0}, "bad_value", ["--num_workers", " 0."]),
        ({"dev": ("long",)}, {}, "unequal_counts", ["long.en has 1 ", "long.de has 2."]),
        ({"vocab_file": "none.model"}, {}, "not_read", ["none.model"]),
        # Before any text is looked for.
        ({"filters": ("duplicate",), "train": ("none",)}, {}, "unknown_name", ["'duplicates'"]),
        ({"vocab_size": 9999}, {}, "bad_value", ["vocab_size=9999"]),
    ],
)
def test_what_cannot_be_made_leaves_the_old_data(
    problem, tmp_dir, tmp_path, change, options, code, names
):
    (tmp_dir / "long.en").write_bytes(b"one\n")
    (tmp_dir / "long.de").write_bytes(b"one\none too many")
    generate(problem, tmp_path, tmp_dir)
    options = {"tmp_dir": tmp_dir, "overwrite": True} | options
    with refused(code, *names):
        generate(dataclasses.replace(problem, **change), tmp_path, **options)
    open_generated(problem, tmp_path)


def test_files_that_shrink(problem, tmp_dir):
    chunk = chunks_by_split(problem, tmp_dir, 50)["train"][0]
    for name in ("train.en", "train.de"):
        (tmp_dir / name).write_text("one line\n")
    with refused("file_changed", "train.en", "train.de"):
        list(chunk.pairs())


def test_writers_are_locked_out_and_readers_are_not(problem, tmp_dir, tmp_path):
    generate(problem, tmp_path, tmp_dir)
    with locked_directory(tmp_path / "parallel_text", "another t2t-datagen"):
        with refused("in_use", tmp_path / "parallel_text", "another t2t-datagen"):
            generate(problem, tmp_path, tmp_dir, overwrite=True)
        assert len(open_generated(problem, tmp_path).open_examples("train")) == 230


def test_a_run_is_not_overwritten(problem, tmp_dir, tmp_path, contents):
    directory = tmp_path / "parallel_text"
    directory.mkdir()
    (directory / "run.json").touch()
    with refused("output_belongs_to_other", tmp_path / "parallel_text"):
        generate(problem, tmp_path, tmp_dir)
    assert contents(directory) == {"run.json": b""}


@dataclasses.dataclass(frozen=True)
class Counting(Problem):
    vocab_size: int = 300
    name: str = "counting"

    def examples(self, split):
        for number in range(SIZES[split]):
            yield f"{split} {number * number}", f"{number} {split}"
        if split == "train":
            yield "a line\nbreak", "inside"
            yield "a lone \ud800 surrogate", "here"


def test_a_problem_that_makes_its_text(tmp_path, pairs_of):
    straight, swapped = Counting(), Counting(name="counting_rev", reverse=True)
    manifest = generate(straight, tmp_path, chunk_pairs=100)
    assert manifest["splits"]["train"]["left_out"] == {
        "with a line break inside": {"count": 1, "first": ["example:231"]},
        "with invalid UTF-8": {"count": 1, "first": ["example:232"]},
    }
    generate(swapped, tmp_path)
    for problem, order in ((straight, 1), (swapped, -1)):
        expected = [pair[::order] for pair in straight.examples("test")]
        assert pairs_of(open_generated(problem, tmp_path), "test") == expected
    with refused("no_such_split", "train", "dev, test"):
        open_generated(straight, tmp_path).text("train")


@pytest.mark.parametrize(
    ("count", "least"), [(1000, 5), pytest.param(1_000_000, 1000, marks=pytest.mark.slow)]
)
def test_every_line_of_random_text_is_counted(tmp_path, count, least):
    results = random_lines.check(count, 1, tmp_path)
    assert min(results["kept"], results["with invalid UTF-8"], results["with a NUL byte"]) > least
    assert results["read by the decoder"] + results["refused by the decoder"] == count


@pytest.mark.parametrize(
    ("name", "read", "code"),
    [
        ("dev.source.txt", lambda generated: generated.text("dev"), "data_damaged"),
        ("test.target.txt", lambda generated: generated.text_paths("test"), "data_damaged"),
        ("dev-00000.tokens.npy", lambda generated: generated.open_examples("dev"), "data_damaged"),
        ("vocab.model", lambda generated: generated.tokenizer, "not_sentencepiece"),
    ],
)
def test_a_file_with_another_content_is_named(problem, tmp_dir, tmp_path, name, read, code):
    generate(problem, tmp_path, tmp_dir)
    read(open_generated(problem, tmp_path))
    path = tmp_path / "parallel_text" / name
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    with refused(code, name):
        read(open_generated(problem, tmp_path))


def test_words_of_any_length_are_counted(problem, tmp_dir, tmp_path, change):
    # A data URI; SentencePiece ends the process at 65,536 characters.
    words = {3: b"a" * 65_535, 4: b"b" * 65_536, 5: b"cd" * 80_000, 6: "\u8239".encode() * 70_000}
    change("train.en", words)
    left_out = generate(problem, tmp_path, tmp_dir)["splits"]["train"]["left_out"]
    assert left_out["longer than max_pair_length=512 tokens"]["count"] == len(words)


@pytest.fixture
def interrupt(problem, tmp_dir, tmp_path, monkeypatch):
    """interrupt(shard): stops at a training shard of 50 pairs, for want of room."""
    replace = Path.replace

    def interrupt(shard):
        def fail_at_shard(path, target):
            if target.name == f"train-{shard:05d}.tokens.npy":
                raise OSError(errno.ENOSPC, "No space left")
            return replace(path, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", fail_at_shard)
            with refused("not_written", f"{shard}.tokens.npy"):
                generate(problem, tmp_path, tmp_dir, chunk_pairs=50)
        with refused("incomplete_data", tmp_path):
            open_generated(problem, tmp_path)

    return interrupt


def identities(directory):
    """A file that was written again is another one, or has another time."""
    files = ((path.name[:11], path.stat()) for path in directory.glob("train-*.npy"))
    return {(name, status.st_ino, status.st_mtime_ns) for name, status in files}


def shards_kept(before, after):
    return sorted({int(name[6:]) for name, *_ in before & after})


@pytest.mark.parametrize(
    ("shard", "damage", "num_kept"),
    [
        (0, None, []),
        (3, None, [0, 1, 2]),
        (3, "train-00001.tokens.npy", [0, 2]),
        (3, "train-00001.json", [0, 2]),
    ],
)
def test_finished_shards_are_kept(
    problem, tmp_dir, tmp_path, interrupt, shard, damage, num_kept, contents, monkeypatch
):
    interrupt(shard)
    directory = tmp_path / "parallel_text"
    if damage:
        (directory / damage).write_bytes((directory / damage).read_bytes()[:-1] + b"\xff")
    before = identities(directory)
    with monkeypatch.context() as patch:
        patch.setattr(SentencePieceTokenizer, "train", None)  # It is not learned again.
        generate(problem, tmp_path, tmp_dir, chunk_pairs=50)
    assert shards_kept(before, identities(directory)) == num_kept
    generate(problem, tmp_path / "whole", tmp_dir, chunk_pairs=50)
    assert contents(directory) == contents(tmp_path / "whole" / "parallel_text")


def test_files_that_change_while_the_others_are_written(problem, tmp_dir, tmp_path, monkeypatch):
    replace = Path.replace

    def replace_and_damage(path, target):
        replace(path, target)
        if target.name == "train-00000.tokens.npy":
            target.write_bytes(target.read_bytes()[:-1] + b"\xff")

    monkeypatch.setattr(Path, "replace", replace_and_damage)
    with refused("file_changed", "train-00000.tokens.npy"):
        generate(problem, tmp_path, tmp_dir)
    with refused("incomplete_data", tmp_path):
        open_generated(problem, tmp_path)


def test_a_complete_set_stays(problem, tmp_dir, tmp_path, contents, capsys):
    directory = tmp_path / "parallel_text"
    first = generate(problem, tmp_path, tmp_dir, chunk_pairs=50)
    before, written = identities(directory), contents(directory)

    def again(text=tmp_dir, **options):
        """Returns whether it was made anew."""
        assert generate(problem, tmp_path, text, chunk_pairs=50, **options) == first
        assert contents(directory) == written
        return not shards_kept(before, identities(directory))

    assert not again()
    tmp_dir = tmp_dir.rename(tmp_path / "moved")
    assert not again(tmp_dir), "wherever the text stands"
    tokens = directory / "train-00001.tokens.npy"
    tokens.write_bytes(tokens.read_bytes()[:-1] + b"\xff")
    assert again(tmp_dir), "it was damaged"
    assert f"{tokens}: " in capsys.readouterr().out
    before = identities(directory)
    assert again(tmp_dir, overwrite=True)


@pytest.mark.parametrize("changed", ["vocab_size", "train.en", "dev.de", "chunks"])
def test_other_data_is_replaced_on_request_alone(problem, tmp_dir, tmp_path, contents, changed):
    directory = tmp_path / "parallel_text"
    generate(problem, tmp_path, tmp_dir)
    other = dataclasses.replace(problem, vocab_size=331 if changed == "vocab_size" else 330)
    if changed in ("train.en", "dev.de"):
        os.utime(tmp_dir / changed, (1, 1))
    options = {"chunk_pairs": 49} if changed == "chunks" else {}
    written = contents(directory)
    with refused("other_data_exists"):
        generate(other, tmp_path, tmp_dir, **options)
    assert contents(directory) == written
    # A manifest that cannot be read may be that of good data.
    manifest = (directory / "manifest.json").rename(directory / "aside")
    (directory / "manifest.json").mkdir()
    with refused("not_read", "manifest.json"):
        generate(problem, tmp_path, tmp_dir)
    (directory / "manifest.json").rmdir()
    manifest.rename(directory / "manifest.json")
    generate(other, tmp_path, tmp_dir, overwrite=True, **options)
    assert open_generated(other, tmp_path).tokenizer.vocab_size == other.vocab_size


@pytest.mark.parametrize("changed", ["file", "chunks", "vocab_lines", "vocab_file"])
def test_shards_made_from_something_else_are_not_kept(
    problem, tmp_dir, tmp_path, interrupt, changed
):
    path = tmp_path / "other.model"
    path.write_bytes(SentencePieceTokenizer.train(["other words", "das Haus"] * 9, 275).model_bytes)
    interrupt(3)
    if changed == "file":
        os.utime(tmp_dir / "train.de", (1, 1))
    settings = {"vocab_lines": 1_000_000, "vocab_file": str(path)}
    other = {name: value for name, value in settings.items() if name == changed}
    before = identities(tmp_path / "parallel_text")
    chunk_pairs = 49 if changed == "chunks" else 50
    generate(dataclasses.replace(problem, **other), tmp_path, tmp_dir, chunk_pairs=chunk_pairs)
    assert shards_kept(before, identities(tmp_path / "parallel_text")) == []


def test_nothing_but_own_files_is_removed(problem, tmp_dir, tmp_path, contents):
    directory = tmp_path / "parallel_text"
    directory.mkdir()
    mine = {"notes.txt", "train.source.old.txt", "my.source.txt", "train-1.tokens"}
    stale = {"train-00099.tokens.npy", "train-00099.json", "vocab.model.0123abcd.partial"}
    for name in mine | stale | {"test.target.txt", "manifest.json"}:
        (directory / name).write_text("old")
    generate(problem, tmp_path, tmp_dir)
    assert {name for name, content in contents(directory).items() if content == b"old"} == mine


def test_the_manifest_goes_before_anything_else(problem, tmp_dir, tmp_path):
    generate(problem, tmp_path, tmp_dir)
    # Cannot be removed as a file can, so that clearing stops at it.
    (tmp_path / "parallel_text" / "train-00009.tokens.npy").mkdir()
    with refused("not_written", "train-00009.tokens.npy"):
        generate(problem, tmp_path, tmp_dir, overwrite=True)
    with refused("incomplete_data", tmp_path):
        open_generated(problem, tmp_path)
