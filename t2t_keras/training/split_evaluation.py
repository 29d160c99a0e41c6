"""How well a model does on a split of its problem: loss, perplexity, accuracy, and its score."""

import functools
from collections.abc import Iterator

import numpy as np

from t2t_keras.data.batches import (
    ElsewhereArrays,
    TokenArrays,
    TokenBatches,
    replica_arrays,
    split_batch,
)
from t2t_keras.data.generated import Generated
from t2t_keras.decoding.translation import score_of
from t2t_keras.errors import UserError
from t2t_keras.progress_bar import print_beside_bar
from t2t_keras.training.out_of_memory import OutOfMemoryError
from t2t_keras.training.progress import Totals
from t2t_keras.training.run_record import RunRecord

# Tokens that are measured at once where the run does not say how many fit.
_USUAL_TOKENS = 4096


class SplitEvaluator:
    """Measures a model on a split, with the weights that it has at each call.

    Args:
      step: a `backend.Step`, which holds the model.
      record: what the run uses.
      generated: its data.
      split: "dev" or "test".
      eval_steps: most batches that the loss is measured on; 0 = the whole split.
      decode_hparams: decoding settings that differ from the problem's, "name=value,...".

    Attributes:
      left_out: how many pairs are too long to be measured.

    Raises:
      UserError: the data has no such split.
    """

    def __init__(
        self,
        step,
        record: RunRecord,
        generated: Generated,
        split: str = "dev",
        eval_steps: int = 0,
        decode_hparams: str = "",
    ):
        self._step, self._record, self._generated = step, record, generated
        self._split, self._decode_hparams = split, decode_hparams
        self._store = generated.store(split)
        hparams = record.hparams
        # A run that asked for "auto" may have found its number on another machine.
        self._most = hparams.microbatch_tokens or max(hparams.max_length, _USUAL_TOKENS)
        self._fewest = min(hparams.max_length, self._most)
        # Nothing is learned from these batches: their order does not matter, their size may be
        # what fits.
        self._batches = TokenBatches(
            self._store.lengths,
            self._most * step.num_replicas,
            self._fewest,
            seed=0,
        )
        self._eval_steps = eval_steps
        self.left_out = self._batches.left_out

    def measure(self) -> dict[str, float]:
        """Returns {"loss": unsmoothed cross-entropy a token, "perplexity", "accuracy"}.

        Out of memory, it goes on with half as much at once, and says so.

        Raises:
          UserError: not even one sentence fits, or there are other workers and so much does not.
        """
        totals = Totals()
        batches = self._batches.epoch(0)
        for batch in batches[: self._eval_steps or len(batches)]:
            for sums in self._sums(batch):
                totals.add(sums)
        return totals.scalars()

    def _sums(self, batch: np.ndarray) -> list[dict[str, float]]:
        """Returns the sums of each part of a batch, in parts that fit."""
        while True:
            try:
                return [self._step.evaluate(arrays) for arrays in self._parts(batch)]
            except OutOfMemoryError:
                self._halve()

    def _parts(self, batch: np.ndarray) -> Iterator[list[TokenArrays | ElsewhereArrays]]:
        step, fixed = self._step, self._step.fixed_shapes
        lengths = self._store.lengths
        for part in split_batch(lengths, batch, self._most, step.num_replicas, fixed):
            yield replica_arrays(self._store, part, step.replicas_here, self._most if fixed else 0)

    def _halve(self) -> None:
        before = self._most
        if before <= self._fewest:
            raise UserError(
                f"Out of memory in an evaluation of {before:,} tokens at once. Lower max_length, "
                f"or take a smaller model or more memory."
            )
        if len(self._step.replicas_here) < self._step.num_replicas:
            # The others wait for this part.
            raise UserError(
                f"Out of memory in an evaluation of {before:,} tokens at once. Start all workers "
                f"with a smaller microbatch_tokens."
            )
        self._most = max(before // 2, self._fewest)
        print_beside_bar(
            f"Out of memory in an evaluation of {before:,} tokens at once; it goes on with "
            f"{self._most:,}."
        )

    def score(self):
        """Translates the split and returns its score, as the problem's `score` does."""
        sources, references = self._generated.text(self._split)
        translations = self.translator.translate(sources)
        return score_of(self._record.problem, translations, references, sources)

    @functools.cached_property
    def translator(self):
        """What translates."""
        from t2t_keras.decoding.config import decode_config
        from t2t_keras.decoding.translator import Translator

        record = self._record
        config = decode_config(self._decode_hparams, record.problem.decoding)
        return Translator(self._step.model, record.tokenizer, config, problem=record.problem)
