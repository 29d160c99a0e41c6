"""Searches with CTranslate2, without TensorFlow; also in int8.

Loads exports of `t2t-exporter --format=ctranslate2`. CTranslate2 takes and returns tokens, the
names of ids in its vocabularies.
"""

import copy
import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from t2t_keras.decoding.config import DecodeConfig, length_penalty
from t2t_keras.decoding.engine import (
    Engine,
    Output,
    batches_at_once,
    batches_by_length,
    parallel_batches,
)
from t2t_keras.environment import usable_cores
from t2t_keras.errors import UserError, report_missing_package, translated_errors
from t2t_keras.special_ids import EOS_ID, PADDING_ID

# Suppressed outputs of CTranslate2 have lower scores than this.
_MIN_SCORE = -1e9

# CTranslate2's length penalty length^0.4 comes nearest to Keras's with alpha 0.6. With this
# patience, a multiple of the beam size, CTranslate2 finds the outputs of Keras's search
# (experiments/exporting_models/to_ctranslate2.py).
_PENALTY_SCALE = 2 / 3
_PATIENCE = 1.5


class _Hypothesis(NamedTuple):
    """An output of CTranslate2, without EOS.

    `is_whole` is False if `log_prob` excludes a prefix or a missing EOS, or includes the
    probability of suppressed outputs.
    """

    tokens: list[str]
    log_prob: float
    is_whole: bool


class CTranslate2Engine(Engine):
    """An engine that searches with an export.

    Ranks and scores outputs like Keras's engine, though CTranslate2's own length penalty is
    length^alpha. A search ends when the number of finished outputs reaches 1.5 times the beam size;
    Keras's search ends when no hypothesis can improve. Directly after a prefix, only the likeliest
    hypothesis may end.

    Args:
      folder: the export.
      config: settings of the search; also an attribute.
      dtype: type of the weights.
      positions: maximum number of tokens on either side, including EOS; 0 = no limit.

    Raises:
      UserError: CTranslate2 is not installed or cannot load the export, a setting is not
        supported, or the export's position tables are shorter than the settings need.
    """

    def __init__(self, folder: Path, config: DecodeConfig, dtype: str, positions: int):
        check_settings(config)
        if 0 < positions < (needed := config.max_positions):
            raise UserError(
                f"{folder} has tables of {positions:,} positions, but the settings need "
                f"{needed:,}. Lower max_input_length, extra_length or max_length; or export "
                f"the run again with these --decode_hparams.",
                code="too_long",
            )
        self.config, self._folder, self._positions = config, folder, positions
        self.name = f"ctranslate2 {dtype}"
        self.batches_at_once = 1 if config.lines_at_once == 1 else batches_at_once(config)
        with report_missing_package("The engine ctranslate2", "ctranslate2"):
            import ctranslate2
        kinds = OSError, ValueError, RuntimeError
        with translated_errors(kinds, f"CTranslate2 cannot load {folder}", code="damaged_export"):
            self._translator = ctranslate2.Translator(
                str(folder),
                compute_type="int8" if dtype.startswith("int8") else "float32",
                inter_threads=self.batches_at_once,
                intra_threads=max(usable_cores() // self.batches_at_once, 1),
            )
            self._source_names, self._target_names = (_read_names(folder, side) for side in _SIDES)
        self._ids = {name: number for number, name in enumerate(self._target_names)}
        # CTranslate2 ranks by its own penalty: request all hypotheses, and rank them here.
        self._penalty = 0.0 if config.samples else config.alpha * _PENALTY_SCALE
        # CTranslate2 would sort several samples of one source by score, so repeat the source.
        self._repeats = config.num_hypotheses if config.samples else 1
        self._options = dict(
            beam_size=1 if config.samples else config.beam_size,
            num_hypotheses=1 if config.samples else config.beam_size,
            patience=_PATIENCE,
            length_penalty=self._penalty,
            return_end_token=True,
            return_scores=True,
            max_input_length=0,
        )
        if config.samples:
            self._options |= dict(
                sampling_topk=min(config.top_k, len(self._target_names)),
                sampling_topp=config.top_p,
                sampling_temperature=config.temperature,
            )

    def with_all_hypotheses(self) -> "CTranslate2Engine":
        """See `Engine`."""
        if self.config.returns_all:
            return self
        engine = copy.copy(self)
        engine.config = dataclasses.replace(self.config, return_beams=True)
        return engine

    def outputs(
        self, sources: Sequence[np.ndarray], prefixes: Sequence[np.ndarray], numbers: Sequence[int]
    ) -> list[list[Output]]:
        """See `Engine`."""
        max_lengths = [self.config.max_output_length(len(ids)) for ids in sources]
        hypotheses = self._search(sources, prefixes, max(max_lengths))
        for row, limit in enumerate(max_lengths):
            # All rows of a batch share one limit. Suppressing padding changes all probabilities a
            # little. So search again only for rows that exceed their limit or contain padding.
            padding = self._target_names[PADDING_ID]
            if any(
                len(hypothesis.tokens) >= limit or padding in hypothesis.tokens
                for hypothesis in hypotheses[row]
            ):
                [hypotheses[row]] = self._search(
                    [sources[row]], [prefixes[row]], limit, [[padding]]
                )
        if any(map(len, prefixes)) or self.config.min_length > 1:
            self._complete(sources, hypotheses)  # Ranking needs whole probabilities.
        if not self.config.samples:
            hypotheses = [sorted(row, key=self._score, reverse=True) for row in hypotheses]
        hypotheses = [row[: self.config.num_hypotheses] for row in hypotheses]
        self._complete(sources, hypotheses)
        if not all(
            row and all(math.isfinite(hypothesis.log_prob) for hypothesis in row)
            for row in hypotheses
        ):
            raise UserError(
                "No translation is possible: the model computes NaN. Its weights are damaged, or "
                "its training diverged: export another checkpoint.",
                code="not_finite",
            )
        return [
            [
                Output([self._ids[name] for name in hypothesis.tokens], self._score(hypothesis))
                for hypothesis in row
            ]
            for row in hypotheses
        ]

    def _search(
        self,
        sources: Sequence[np.ndarray],
        prefixes: Sequence[np.ndarray],
        limit: int,
        suppressed: list[list[str]] | None = None,
    ) -> list[list[_Hypothesis]]:
        """Returns all hypotheses of at most `limit` tokens, including EOS."""
        source_tokens = self._source_tokens(sources)
        prefix_tokens = [[self._target_names[i] for i in ids] for ids in prefixes]
        rows = [row for row in range(len(sources)) for _ in range(self._repeats)]
        min_length = min(self.config.min_length, limit)
        results = self._translator.translate_batch(
            [source_tokens[row] for row in rows],
            [prefix_tokens[row] for row in rows] if any(prefix_tokens) else None,
            suppress_sequences=suppressed,
            max_decoding_length=limit - 1,
            min_decoding_length=min_length - 1,
            **self._options,
        )
        hypotheses: list[list[_Hypothesis]] = [[] for _ in sources]
        for row, result in zip(rows, results, strict=True):
            for tokens, score in zip(result.hypotheses, result.scores, strict=True):
                if score < _MIN_SCORE:
                    continue
                log_prob = score * len(tokens) ** self._penalty
                # A source without pieces has an output without any token, not even EOS.
                has_end = bool(tokens) and tokens[-1] == self._target_names[EOS_ID]
                is_whole = has_end and not (prefix_tokens[row] or suppressed or min_length > 1)
                hypotheses[row].append(
                    _Hypothesis(tokens[:-1] if has_end else tokens, log_prob, is_whole)
                )
        return hypotheses

    def _score(self, hypothesis: _Hypothesis) -> float:
        return hypothesis.log_prob / length_penalty(1 + len(hypothesis.tokens), self.config.alpha)

    def _complete(self, sources: Sequence[np.ndarray], rows: list[list[_Hypothesis]]) -> None:
        """Replaces the log-probabilities that are not whole, in place."""
        source_tokens = self._source_tokens(sources)
        incomplete = [
            (row, rank)
            for row, hypotheses in enumerate(rows)
            for rank, hypothesis in enumerate(hypotheses)
            if not hypothesis.is_whole
        ]
        pairs = [(source_tokens[row], rows[row][rank].tokens) for row, rank in incomplete]
        for (row, rank), log_probs in zip(incomplete, self._score_pairs(pairs), strict=True):
            total = float(log_probs.sum(dtype=np.float64))
            rows[row][rank] = rows[row][rank]._replace(log_prob=total, is_whole=True)

    def _source_tokens(self, sources: Sequence[np.ndarray]) -> list[list[str]]:
        return [[self._source_names[i] for i in ids[:-1]] for ids in sources]

    def _score_pairs(self, pairs: Sequence[tuple[list[str], list[str]]]) -> list[np.ndarray]:
        """Returns the log-probabilities of targets and their EOS, for pairs (source, target)."""
        if not pairs:
            return []
        results = self._translator.score_batch(
            *zip(*pairs, strict=True),
            max_input_length=0,
            max_batch_size=self.config.batch_tokens,
            batch_type="tokens",
        )
        return [np.asarray(result.log_probs, np.float32) for result in results]

    def log_probs(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """See `Engine`."""
        return self._compute_in_batches(self._score_pairs, sources, targets)

    def next_symbols(self, source: np.ndarray, prefix: np.ndarray, count: int) -> list[int]:
        """See `Engine`."""
        excluded_names = [[self._target_names[symbol]] for symbol in (PADDING_ID, EOS_ID)]
        count = min(count, len(self._target_names) - len(excluded_names))
        # Take a search's first step: `return_alternatives` does not return the likeliest symbols.
        [result] = self._translator.translate_batch(
            self._source_tokens([source]),
            [[self._target_names[i] for i in prefix]],
            beam_size=count,
            num_hypotheses=count,
            suppress_sequences=excluded_names,
            max_input_length=0,
            max_decoding_length=len(prefix) + 1,
        )
        return [self._ids[tokens[len(prefix)]] for tokens in result.hypotheses]

    def cross_attention(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """See `Engine`; truncates targets to the positions in the export's tables."""
        targets = [ids[: self._positions or None] for ids in targets]

        def compute_attention(pairs: Sequence[tuple[list[str], list[str]]]) -> Iterator[np.ndarray]:
            # The target is passed as a prefix; tokens after it do not count.
            results = self._translator.translate_batch(
                *map(list, zip(*pairs, strict=True)),
                beam_size=1,
                return_attention=True,
                max_input_length=0,
                max_decoding_length=max(1, *(len(target) for _, target in pairs)),
            )
            for (source, target), result in zip(pairs, results, strict=True):
                rows = np.float32(result.attention[0][: len(target)])
                yield rows.reshape(len(target), len(source))

        return self._compute_in_batches(compute_attention, sources, targets)

    def _compute_in_batches(
        self, compute: Callable, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields (number, result) of each pair; `compute` takes pairs of tokens without EOS."""
        lengths = list(map(max, map(len, sources), map(len, targets)))
        if 0 < self._positions < (longest := max(lengths, default=0)):
            raise UserError(
                f"Expected at most {self._positions:,} tokens on each side, the limit of "
                f"{self._folder}, got {longest:,}.",
                code="too_long",
            )

        def compute_batch(batch: list[int]) -> list[np.ndarray]:
            source_tokens = self._source_tokens([sources[number] for number in batch])
            target_tokens = [[self._target_names[i] for i in targets[n][:-1]] for n in batch]
            return list(compute(list(zip(source_tokens, target_tokens, strict=True))))

        at_once = self.batches_at_once
        batches = batches_by_length(dict(enumerate(lengths)), self.config, at_once)
        for batch, arrays in parallel_batches(compute_batch, batches, at_once):
            yield from zip(batch, arrays, strict=True)

    def check_attention(self) -> NoReturn:
        """Raises `UserError`: CTranslate2 has the attention of one layer only."""
        raise UserError(
            "CTranslate2 returns the attention of one layer only: choose the engine keras, or do "
            "without the attention.",
            code="not_supported",
        )

    def attention(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """See `Engine`."""
        self.check_attention()


_UNSUPPORTED = {
    "coverage_penalty": "CTranslate2 has the attention of one layer only",
    "seed": "samples differ at each call",
    "xla": "it is compiled already",
    "xla_for_one": "it is compiled already",
    "weights_dtype": "the export has its own --dtype",
}


def check_settings(config: DecodeConfig) -> None:
    """Raises `UserError` for settings that CTranslate2 lacks or defines differently."""
    default = DecodeConfig()
    reasons = [
        f"{name} ({reason})"
        for name, reason in _UNSUPPORTED.items()
        if getattr(config, name) != getattr(default, name)
    ]
    reasons += ["max_length=1 (it writes at least one token)"] * (config.max_length == 1)
    if reasons:
        raise UserError(
            f"CTranslate2 does not support {', '.join(reasons)}: leave it out of "
            f"--decode_hparams, or do without CTranslate2.",
            code="not_supported",
        )


_SIDES = ("source", "target")


def _read_names(folder: Path, side: str) -> list[str]:
    """Reads the names of the source's or target's ids."""
    shared = folder / "shared_vocabulary.json"
    file = shared if shared.exists() else folder / f"{side}_vocabulary.json"
    return json.loads(file.read_bytes())
