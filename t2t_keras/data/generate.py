"""`generate`: source files -> vocabulary, encoded shards, dev and test text, manifest.

An interrupted command can be continued: `unfinished.json` records the origin of the shards, and
`<stem>.json` the checksums of each finished shard. Complete data has neither.
"""

import contextlib
import functools
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.data.beam_workers import beam_workers, check_beam
from t2t_keras.data.chunks import chunks_by_split, spread_lines
from t2t_keras.data.dataset import SIDES, describe, open_generated
from t2t_keras.data.encode import (
    EncodedChunk,
    Starmap,
    add_left_out,
    data_origin,
    digest_of,
    encode_chunk,
    workers,
)
from t2t_keras.data.filters import (
    check_direction,
    check_filters,
    data_versions,
    duplicate_mask,
    pair_hashes,
)
from t2t_keras.data.mixing import stages_of
from t2t_keras.data.problem import Chunk, Pair, Problem, make_problem
from t2t_keras.environment import expand_path
from t2t_keras.errors import UserError, translated_errors
from t2t_keras.io.files import (
    MANIFEST_FILE,
    TEMPORARY_SUFFIX,
    UNFINISHED_FILE,
    VOCABULARY_FILES,
    as_json,
    check_folder,
    damaged_files,
    locked_directory,
    read_json,
    write_atomically,
    write_json,
)
from t2t_keras.io.terminal import ProgressBar
from t2t_keras.registry import PAIR_TRANSFORMS
from t2t_keras.special_ids import SPACE
from t2t_keras.text.tokenizer import SentencePieceTokenizer, Tokenizer

# Number of pairs in a shard: tens of megabytes of memory per worker.
CHUNK_PAIRS = 50_000

_TEMPORARY_ENDING = rf"\.[0-9a-f]{{8}}{TEMPORARY_SUFFIX}"
_STATE_FILES = rf"{UNFINISHED_FILE}|(train|dev|test)-\d+\.json|shards\.jsonl"
_SPLIT_FILES = r"(train|dev|test)(-\d+\.(tokens|lengths)\.npy|\.(source|target)\.txt)"


def generate(
    problem: Problem | str,
    data_dir: str | Path,
    tmp_dir: str | Path = "",
    num_workers: int = 1,
    chunk_pairs: int = CHUNK_PAIRS,
    beam_runner: str = "",
    beam_pipeline_options: Sequence[str] = (),
    overwrite: bool = False,
) -> dict[str, Any]:
    """Makes the data of a problem in `<data_dir>/<problem name>/` and prints a summary.

    Keeps complete, intact data of the same text and settings. Otherwise removes the manifest first
    and writes it last, so that incomplete data has none.

    Args:
      problem: from `make_problem`, or its name.
      data_dir: parent of the directory to write.
      tmp_dir: directory of the source files.
      num_workers: number of encoding processes; any number gives the same data.
      chunk_pairs: pairs per shard.
      beam_runner: Apache Beam runner whose workers encode instead, with the same result; "" = none.
        They need both directories under the same paths.
      beam_pipeline_options: pipeline options, each "name=value".
      overwrite: whether to replace complete data of other text or settings.

    Returns:
      The manifest.

    Raises:
      UserError: files are missing, empty, swapped or not line-aligned; a split has no usable pair;
        the vocabulary cannot be made; another t2t-datagen is writing to the directory, or it
        contains a run or other data; the disk is full; or `beam_workers` raises an error.
    """
    if num_workers < 1:
        raise UserError(f"--num_workers must be >= 1, got {num_workers}.", code="bad_value")
    data_dir, tmp_dir = expand_path(data_dir), expand_path(tmp_dir)
    problem = make_problem(problem) if isinstance(problem, str) else problem
    if not str(tmp_dir) and type(problem).examples is Problem.examples:
        raise UserError(
            f"Please give --tmp_dir, the directory of {problem.name}'s source files.",
            code="missing_flags",
        )
    if beam_runner:
        check_beam(beam_runner, beam_pipeline_options)
        # Workers may have different working directories.
        data_dir, tmp_dir = Path(data_dir).absolute(), Path(tmp_dir).absolute()
    problem = problem.resolved(Path(tmp_dir))
    # Check everything possible before removing old data.
    plan = _checked_plan(problem, tmp_dir, chunk_pairs)
    vocabulary = _existing_vocabulary(problem, plan["train"])
    directory = Path(data_dir) / problem.name
    check_folder(directory, "generated data")
    made_from = data_origin(problem, plan, chunk_pairs)
    if not overwrite and (complete := _complete_manifest(problem, directory, made_from)):
        return complete
    with (
        locked_directory(directory, "t2t-datagen"),
        _workers(plan, directory, num_workers, beam_runner, beam_pipeline_options) as starmap,
    ):
        tokenizer, finished_shards = _prepare_directory(
            problem, plan["train"], vocabulary, directory, made_from
        )
        splits, files = _write_splits(starmap, problem, plan, tokenizer, directory, finished_shards)
        manifest = {
            "problem": problem.name,
            "config": problem.config(),
            "versions": data_versions(problem.filters),
            "made_from": digest_of(made_from),
            "vocabulary": tokenizer.record(),
            "splits": splits,
            "files": files,
        }
        _complete_data(directory, manifest)
    print(describe(manifest), flush=True)
    return manifest


def _complete_data(directory: Path, manifest: dict[str, Any]) -> None:
    """Writes the manifest; raises `UserError` if a file has changed since it was written."""
    if damaged := damaged_files(directory, manifest["files"]):
        raise UserError(
            f"Files changed while they were written: {', '.join(damaged)}. Run the same command "
            f"again.",
            code="file_changed",
        )
    write_json(directory / MANIFEST_FILE, manifest, indent=1)
    _remove(directory, _STATE_FILES)


def _write_splits(
    starmap: Starmap,
    problem: Problem,
    plan: Mapping[str, Sequence[Chunk]],
    tokenizer: Tokenizer,
    directory: Path,
    finished_shards: dict[str, dict],
) -> tuple[dict[str, dict], dict[str, dict]]:
    """Writes the vocabulary, the artifacts of transforms, and the shards and text of all splits.

    Returns:
      The manifest's entries of the splits, and the records of all files by name.
    """
    files = tokenizer.save(directory)
    for transform in problem.pair_transforms.values():
        if name := transform.artifact:
            files[name] = write_atomically(directory / name, transform.learn(plan["train"]))
    encode = functools.partial(encode_chunk, problem, tokenizer, directory)
    duplicates = _duplicate_bits(starmap, plan["train"]) if "duplicates" in problem.filters else []
    encoded, splits = starmap(encode, _tasks(plan, duplicates, finished_shards)), {}
    for split, chunks in plan.items():
        shards = _shards(encoded, split, chunks, finished_shards)
        splits[split] = _finish_split(directory, split, shards, files)
    return splits, files


def _checked_plan(
    problem: Problem, tmp_dir: str | Path, chunk_pairs: int
) -> dict[str, Sequence[Chunk]]:
    """Returns the chunks of each split; raises `UserError` if a setting does not suit them."""
    names, languages = problem.filters, problem.languages()
    # A language is "" if texts have their own languages, or none.
    check_filters(names, filter(None, languages))
    plan = dict(chunks_by_split(problem, tmp_dir, chunk_pairs))
    # A mixture needs the examples of a corpus to be contiguous.
    corpora = list(dict.fromkeys(chunk.corpus for chunk in plan["train"]))
    plan["train"] = sorted(plan["train"], key=lambda chunk: corpora.index(chunk.corpus))
    check_filters(names, {code for chunk in plan["train"] for code in chunk.languages or languages})
    for chunks in plan.values():
        check_direction(chunks, languages)
    if problem.mix:
        sizes: dict[str, int] = {}
        for chunk in plan["train"]:
            sizes[chunk.corpus] = sizes.get(chunk.corpus, 0) + chunk.count
        stages_of(problem.mix, problem.mix_until, sizes)
    return plan


def _workers(
    plan: Mapping[str, Sequence[Chunk]],
    directory: Path,
    num_workers: int,
    beam_runner: str,
    beam_pipeline_options: Sequence[str],
) -> contextlib.AbstractContextManager[Starmap]:
    if not beam_runner:
        return workers(min(num_workers, len(plan["train"]) or 1))
    chunks = itertools.chain.from_iterable(plan.values())
    input_files = sorted({path for chunk in chunks for path in chunk.paths})
    return beam_workers(beam_runner, beam_pipeline_options, directory, input_files)


def _stems(split: str, chunks: Sequence[Chunk]) -> list[str]:
    """Returns the name of each chunk's shard."""
    return [f"{split}-{number:05d}" for number in range(len(chunks))]


def _existing_vocabulary(problem: Problem, chunks: Sequence[Chunk]) -> Tokenizer | None:
    """Reads the vocabulary of `vocab_file`, which may be in the directory to be written."""
    tokenizer = problem.load_vocabulary()
    if tokenizer is None:
        return None
    pieces = tokenizer.vocabulary()
    symbols = _symbols(problem, chunks)
    if missing := [symbol for symbol in symbols if f"{SPACE}{symbol}" not in pieces]:
        raise UserError(
            f"vocab_file={problem.vocab_file} lacks {len(missing)} symbols of {problem.name}: "
            f"{', '.join(missing[:10])}{', ...' if len(missing) > 10 else ''}. Give a vocabulary "
            f"with these symbols, or let t2t-datagen learn one.",
            code="other_vocabulary",
        )
    return tokenizer


def _complete_manifest(
    problem: Problem, directory: Path, made_from: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Returns the manifest of complete, intact data, or None; raises for different data."""
    path = directory / MANIFEST_FILE
    try:
        manifest = read_json(path, "The data is kept.") if path.exists() else {}
    except UserError as error:
        if error.code == "not_read":
            raise  # The data may be intact.
        manifest = {}
    if not {"config", "vocabulary", "splits", "files"} <= manifest.keys():
        return None
    try:
        generated = open_generated(problem, directory.parent)
        is_different = manifest.get("made_from") not in (None, digest_of(made_from))
        reason = f"The data in {directory} was made from other text or by other versions."
    except UserError as error:
        if error.code != "other_settings":
            raise
        is_different, reason = True, str(error)
    if is_different:
        raise UserError(
            f"{reason} Give another --data_dir, or --overwrite to replace this data: then runs "
            f"trained on it cannot be continued or evaluated.",
            code="other_data_exists",
        )
    if not manifest.get("made_from"):
        return None  # The text may have changed.
    try:
        generated.compare_all()
    except UserError as error:
        print(error, flush=True)
        return None
    print(f"{describe(manifest)}\n{directory} is complete, and all checksums match.", flush=True)
    return manifest


def _prepare_directory(
    problem: Problem,
    chunks: Sequence[Chunk],
    existing_vocabulary: Tokenizer | None,
    directory: Path,
    made_from: Mapping[str, Any],
) -> tuple[Tokenizer, dict[str, dict]]:
    """Removes earlier files, except finished shards of the same text and settings.

    Returns:
      The vocabulary, and the records of finished training shards by stem.
    """
    unfinished = _read_or_empty(directory / UNFINISHED_FILE)
    has_same_origin = made_from and unfinished.get("made_from") == as_json(made_from)
    vocabulary = unfinished.get("vocabulary") if has_same_origin else None
    tokenizer = existing_vocabulary
    if not tokenizer and vocabulary:
        with contextlib.suppress(UserError):
            tokenizer = Tokenizer.load_saved(directory, vocabulary)
    tokenizer = tokenizer or _learn_vocabulary(problem, chunks)
    finished_shards = {}
    if tokenizer.record() == vocabulary:
        for stem in _stems("train", chunks):
            record = _read_or_empty(directory / f"{stem}.json")
            if record and not damaged_files(directory, record["files"]):
                finished_shards[stem] = record
        print(
            f"Continuing: {len(finished_shards)} of {len(chunks)} training shards exist.",
            flush=True,
        )
    keep = {
        name
        for stem, shard in finished_shards.items()
        for name in (f"{stem}.json", *shard["files"])
    }
    _remove(directory, MANIFEST_FILE)
    _remove(directory, _own_file_pattern(), keep)
    unfinished = {"made_from": made_from, "vocabulary": tokenizer.record()}
    write_json(directory / UNFINISHED_FILE, unfinished)
    return tokenizer, finished_shards


def _learn_vocabulary(problem: Problem, chunks: Sequence[Chunk]) -> Tokenizer:
    def learn(*sides: int) -> Tokenizer:
        prepare = problem.prepare_pair if problem.pair_transforms else None
        lines = spread_lines(chunks, problem.vocab_lines, sides, prepare)
        size, symbols = problem.vocab_size, _symbols(problem, chunks)
        return SentencePieceTokenizer.train(lines, size, problem.vocab_kind, symbols)

    return learn(0, 1) if problem.shared_vocabulary else learn(1).with_source(learn(0))


def _symbols(problem: Problem, chunks: Sequence[Chunk]) -> list[str]:
    """Returns the words that must be single pieces of the vocabulary."""
    transform_symbols = [transform.symbols() for transform in problem.pair_transforms.values()]
    chunk_symbols = [chunk.symbols for chunk in chunks]
    return sorted({*problem.vocab_symbols}.union(*transform_symbols, *chunk_symbols))


def _own_file_pattern() -> str:
    """Returns a regular expression for the names of files that t2t-datagen writes."""
    artifacts = (PAIR_TRANSFORMS[name].artifact for name in PAIR_TRANSFORMS)
    names = "|".join(map(re.escape, filter(None, (*VOCABULARY_FILES, *artifacts))))
    files = f"({names}|{_SPLIT_FILES}|{_STATE_FILES})({_TEMPORARY_ENDING})?"
    return f"{files}|{MANIFEST_FILE}{_TEMPORARY_ENDING}"


def _read_or_empty(path: Path) -> dict[str, Any]:
    with contextlib.suppress(UserError):
        return read_json(path, "")
    return {}


def _remove(directory: Path, pattern: str, keep: Collection[str] = ()) -> None:
    """Removes the files whose names match a regular expression, except the names in `keep`."""
    text, advice = f"Files in {directory} cannot be removed", "Give another --data_dir."
    with translated_errors(OSError, text, advice, code="not_written"):
        for path in directory.iterdir():
            if re.fullmatch(pattern, path.name) and path.name not in keep:
                path.unlink()


def _duplicate_bits(starmap: Starmap, chunks: Sequence[Chunk]) -> list[bytes]:
    """Returns, for each chunk, bits that mark the pairs that repeat an earlier pair."""
    hash_results = starmap(pair_hashes, ((chunk,) for chunk in chunks))
    hashes = list(ProgressBar(hash_results, total=len(chunks), desc="duplicates", unit=" chunks"))
    ends = np.cumsum([len(chunk_hashes) for chunk_hashes in hashes])[:-1]
    all_hashes = np.concatenate([np.zeros(0, np.uint64), *hashes])
    hashes.clear()  # Frees half of the memory.
    return [np.packbits(part).tobytes() for part in np.split(duplicate_mask(all_hashes), ends)]


def _tasks(
    plan: Mapping[str, Sequence[Chunk]], duplicates: Sequence[bytes], done_stems: Collection[str]
) -> Iterator[tuple[str, str, Chunk, bytes]]:
    """Yields the last arguments of `encode_chunk` for each chunk without a finished shard."""
    for split, chunks in plan.items():
        masks = (duplicates if split == "train" else ()) or [b""] * len(chunks)
        for stem, chunk, mask in zip(_stems(split, chunks), chunks, masks, strict=True):
            if stem not in done_stems:
                yield split, stem, chunk, mask


def _shards(
    encoded: Iterator[EncodedChunk],
    split: str,
    chunks: Sequence[Chunk],
    finished_shards: dict[str, dict],
) -> Iterator[EncodedChunk]:
    """Yields the shard of each chunk: a finished one, or the next one of `encoded`."""
    total = sum(chunk.count for chunk in chunks)
    with ProgressBar(total=total, desc=split, unit=" pairs") as progress:
        for stem, chunk in zip(_stems(split, chunks), chunks, strict=True):
            yield (finished_shards[stem], []) if stem in finished_shards else next(encoded)
            progress.update(chunk.count)


def _finish_split(
    directory: Path, split: str, shards: Iterable[EncodedChunk], files: dict[str, dict]
) -> dict[str, Any]:
    """Waits for a split's shards, writes the text of dev or test, and adds both to `files`.

    Returns:
      The split's entry in the manifest.
    """
    corpora: dict[str, int] = {}
    summary: dict[str, Any] = {"examples": 0, "source_tokens": 0, "target_tokens": 0}
    summary |= {"shards": [], "left_out": {}, "corpora": corpora}
    text_pairs: list[Pair] = []
    for record, pairs in shards:
        corpora[record["corpus"]] = corpora.get(record["corpus"], 0) + record["examples"]
        for name in ("examples", "source_tokens", "target_tokens"):
            summary[name] += record[name]
        summary["shards"].append(record["stem"])
        files.update(record["files"])
        for reason, entry in record["left_out"].items():
            add_left_out(summary["left_out"], reason, **entry)
        text_pairs += pairs
    if not summary["examples"]:
        reasons = (f"{entry['count']:,} {reason}" for reason, entry in summary["left_out"].items())
        raise UserError(
            f"The {split} split has no usable pair; left out: "
            f"{', '.join(reasons) or 'none, it is empty'}. Give other files or filters.",
            code="nothing_left",
        )
    if split != "train":
        for number, side in enumerate(SIDES):
            path = directory / f"{split}.{side}.txt"
            content = "".join(f"{pair[number]}\n" for pair in text_pairs).encode("utf-8")
            files[path.name] = write_atomically(path, content)
    return summary
