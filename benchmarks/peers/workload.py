"""The work that every toolkit does, and how it is timed. Needs only NumPy.

All toolkits get the same batches from a fixed seed: sentences as long as captions of Multi30k.
"""

import argparse
import json
import os
import pickle
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))
PADDING, EOS, UNKNOWN, BOS = range(4)
# After embeddings and sub-layers, as in the paper; none inside attention and feed-forward networks.
DROPOUT, LABEL_SMOOTHING = 0.1, 0.1
LEARNING_RATE, BETA_1, BETA_2, EPSILON = 1e-4, 0.9, 0.98, 1e-9
# Outputs have the same length whatever the random weights are.
BEAM_SIZE, ALPHA, OUTPUT_LENGTH = 4, 0.6, 50
PASSES = 5  # over the batches in training; the first is the warm-up
# Batches are padded to these lengths, in training on both sides: a compiler sees four shapes.
_LENGTHS = (12, 16, 20, 28)


class Size(NamedTuple):
    """The paper's model, with one matrix for embeddings and softmax."""

    num_layers: int
    d_model: int
    d_ff: int
    num_heads: int
    vocab_size: int
    batch_tokens: int  # of each side in training, including padding


SIZES = {
    "tiny": Size(4, 128, 256, 4, 10_000, batch_tokens=4096),
    "base": Size(6, 512, 2048, 8, 32_000, batch_tokens=1024),
}


def arguments(*options: str) -> argparse.Namespace:
    """Returns size, mode and options of a script; an option is an integer, 0 if it is not set."""
    parser = argparse.ArgumentParser()
    parser.add_argument("size", type=SIZES.__getitem__)
    parser.add_argument("mode", choices=("train", "decode32", "decode1"))
    for option in options:
        parser.add_argument(f"--{option}", type=int, nargs="?", const=1, default=0)
    return parser.parse_args()


def time_training(size: Size, step: Callable[[np.ndarray, np.ndarray, np.ndarray], float]) -> None:
    """Times a step, which takes source, decoder input and target and returns the mean loss."""

    def updates(*batch: np.ndarray) -> Iterator[tuple[float, float]]:
        while True:
            start = time.perf_counter()
            loss = step(*batch)
            yield time.perf_counter() - start, loss

    time_updates(size, updates)


def time_updates(size: Size, updates: Callable[..., Iterator[tuple[float, float]]]) -> None:
    """Times updates: an iterator, of each batch, over their seconds and mean losses."""
    generator, batches = random.Random(0), []
    for length in _LENGTHS:
        source, target = (_draw(generator, size, size.batch_tokens // length, length) for _ in "st")
        target_input = np.insert(np.where(target == EOS, PADDING, target)[:, :-1], 0, BOS, 1)
        batches.append((source, target_input, target))
    iterators = [updates(*batch) for batch in batches]
    passes = np.array([[next(iterator) for iterator in iterators] for _ in range(PASSES)])
    warm_up, *seconds = passes[:, :, 0].sum(1).tolist()
    median = statistics.median(seconds)
    tokens = sum(np.count_nonzero(target) for _, _, target in batches)
    lengths = ([np.count_nonzero(side, 1) for side in batch[::2]] for batch in batches)
    work = sum(gflop(size, *sides) for sides in lengths)
    facts = dict(gflops=work / median, losses=passes[-1, :, 1].tolist())
    print(json.dumps(dict(tokens_per_s=tokens / median, warm_up_s=warm_up) | facts))


def time_decoding(
    args: argparse.Namespace, translate: Callable[[np.ndarray], list[list[int]]], warm_all=False
) -> None:
    """Times `translate`, which takes source ids and returns the best output of each sentence.

    Before that, translates the first batch once, or with `warm_all` each batch.
    """
    generator, rows = random.Random(0), int(args.mode.removeprefix("decode"))
    batches = [_draw(generator, args.size, rows, length) for length in _LENGTHS]
    start = time.perf_counter()
    for source in batches if warm_all else batches[:1]:
        translate(source)
    timed_from = time.perf_counter()
    # A single sentence is translated more often.
    outputs = [ids for source in batches * (1 if rows > 1 else 4) for ids in translate(source)]
    seconds = time.perf_counter() - timed_from
    if any(len(ids) != OUTPUT_LENGTH for ids in outputs):
        raise ValueError(f"Expected {OUTPUT_LENGTH} ids per sentence, got {outputs}.")
    speed = OUTPUT_LENGTH * len(outputs) / seconds
    print(json.dumps(dict(tokens_per_s=speed, warm_up_s=timed_from - start)))


def _draw(generator: random.Random, size: Size, rows: int, length: int) -> np.ndarray:
    """Returns random sentences, int32 [rows, length]; the shortest fill two thirds of a row."""
    batch = np.full((rows, length), PADDING, np.int32)
    for row in batch:
        end = generator.randint(2 * length // 3, length) - 1 if rows > 1 else length - 1
        row[:end] = generator.choices(range(BOS + 1, size.vocab_size), k=end)
        row[end] = EOS
    return batch


def work_of_parent() -> tuple[dict, list[dict[str, np.ndarray]]]:
    """Returns the settings and batches that benchmarks/gpu.py sends."""
    settings = pickle.load(sys.stdin.buffer)
    return settings | dict(size=Size(*settings["size"])), settings["batches"]


def answer_parent(batches: list, update: Callable, report: Callable[[], tuple[str, int]]) -> None:
    """Passes over the batches for each line of benchmarks/gpu.py; prints start and ends of steps.

    `update` starts a step and returns its loss, which is read during the next step, as in a
    training; in the first pass, which compiles, at once. `report` returns device and peak memory.
    """
    for number, _ in enumerate(sys.stdin.buffer):
        start, running, ends = time.perf_counter(), [], []
        for left in range(len(batches) - 1, -1, -1):
            running.append(update(batches[-1 - left]))
            while len(running) > (number > 0 and left > 0):
                loss = float(running.pop(0))
                ends.append(time.perf_counter())
        device, memory = report()
        answer = dict(start=start, ends=ends, loss=loss, device=device, gigabytes=memory / 1e9)
        print(json.dumps(answer), flush=True)


def gflop(size: Size, sources: np.ndarray, targets: np.ndarray) -> float:
    """Returns 10^9 operations of the matrix products of a step on pairs with such lengths."""
    # Self-attention has four matrices, cross-attention two for each side.
    tokens = (sources + targets).sum() * (6 * size.d_model**2 + 2 * size.d_model * size.d_ff)
    attention = 2 * size.d_model * (sources @ sources + targets @ (sources + targets))
    softmax = size.d_model * size.vocab_size * targets.sum()
    return 3 * 2 * float(size.num_layers * (tokens + attention) + softmax) / 1e9
