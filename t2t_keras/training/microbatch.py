"""How many tokens a replica holds at once: the most that fit, found, remembered, and halved."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from t2t_keras.data.atomic_file import write_atomically
from t2t_keras.data.batches import TokenBatches, largest_microbatch
from t2t_keras.data.generated import Generated
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.training.free_memory import free_memory
from t2t_keras.training.memory import step_memory
from t2t_keras.training.run_record import RunRecord
from t2t_keras.training.training_cost import hardware_name

_FILE = "microbatch.json"
# The search ends when what fits and what does not are so close.
_CLOSE = 1.1
# A process has grown to so many times what a step was counted to hold at once.
_MARGIN = 1.5


class Microbatch:
    """The most tokens a side that a replica holds at once, remembered in the run's directory.

    What dropout drops depends on how a step is split, so that a run that goes on must split as
    before to go on bit for bit.

    Args:
      output_dir: the run's directory.
      hparams: what the run uses.
      hardware: what it runs on; elsewhere, other sizes fit.
      replicas: how many share it; fewer or more have other memory each.
      alone: whether no other worker has to split every step in the same way; else the number is
        what is asked for, and stays.

    Attributes:
      tokens: the number; 0 where it is still to be found.
    """

    def __init__(
        self,
        output_dir: str | Path,
        hparams: HParams,
        hardware: str,
        replicas: int = 1,
        alone: bool = True,
    ):
        self._alone = alone
        self._path = Path(output_dir) / _FILE
        # One sentence must fit, in training and in evaluation.
        self._fewest = hparams.max_length
        self._recompute = hparams.recompute
        self._circumstances = {
            "microbatch_tokens": hparams.microbatch_tokens,
            "recompute": hparams.recompute,
            "hardware": hardware,
            "replicas": replicas,
        }
        remembered = self._remembered() if alone else 0
        if remembered:
            print(f"microbatch_tokens={remembered:,}, as {self._path} says.", flush=True)
        self.tokens = remembered or hparams.microbatch_tokens

    def find(self, fits: Callable[[int], bool], most: int) -> None:
        """Finds and remembers the most tokens that fit.

        Args:
          fits: tells whether so many do.
          most: more would not make a step faster.

        Raises:
          UserError: not even one sentence fits, or there are other workers.
        """
        if not self._alone:
            raise UserError(
                f"microbatch_tokens=auto: several workers have to split every step alike. Give a "
                f"number: that which one of them finds alone is printed, and stands in {_FILE}."
            )
        found = most_that_fit(fits, self._fewest, max(most, self._fewest))
        if not found:
            raise self._nothing_fits()
        self._set(found)

    def halve(self) -> None:
        """Halves and remembers the number.

        Raises:
          UserError: it is that of one sentence already, or there are other workers.
        """
        if not self._alone:
            raise UserError(
                f"Out of memory with microbatch_tokens={self.tokens}. Several workers have to "
                f"split every step alike: start all of them with a smaller number."
            )
        if self.tokens <= self._fewest:
            raise self._nothing_fits()
        self._set(max(self.tokens // 2, self._fewest))

    def _set(self, tokens: int) -> None:
        self.tokens = tokens
        content = {"tokens": tokens, "of": self._circumstances}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, (json.dumps(content, indent=2) + "\n").encode("utf-8"))

    def _remembered(self) -> int:
        if not self._path.exists():
            return 0
        try:
            content: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
            same = content["of"] == self._circumstances
            return max(int(content["tokens"]), self._fewest) if same else 0
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"{self._path} cannot be read and is not used: {error}", flush=True)
            return 0

    def _nothing_fits(self) -> UserError:
        less = "" if self._recompute else "set recompute=true, "
        return UserError(
            f"Out of memory with sentences of max_length={self._fewest} tokens, one at a time. "
            f"Lower max_length, {less}or take a smaller model or more memory."
        )


def most_that_fit(fits: Callable[[int], bool], fewest: int, most: int) -> int:
    """Returns the largest number that fits, to a tenth, found by trial; 0 where `fewest` does not.

    Args:
      fits: tells whether a number does; what is smaller than one that fits must fit too.
      fewest: the smallest number that is of use.
      most: the largest.
    """
    if fits(most):
        return most
    if most == fewest or not fits(fewest):
        return 0
    fitting, too_many = fewest, most
    while too_many > fitting * _CLOSE:
        # The geometric mean: sizes are a matter of factors.
        middle = int((fitting * too_many) ** 0.5)
        fitting, too_many = (middle, too_many) if fits(middle) else (fitting, middle)
    return fitting


def find_microbatch(
    step, record: RunRecord, generated: Generated, output_dir: str | Path, alone: bool = True
) -> Microbatch:
    """Returns the microbatch of a run: what is asked for, what is remembered, or what fits.

    On a GPU sizes are tried with the longest sentences, since these take the most attention and as
    many logits as any. On a CPU, where a process that takes too much is killed, the memory of a
    step is counted and compared with what is free.

    Args:
      step: a `backend.Step`.
      record: what the run uses.
      generated: its data.
      output_dir: the run's directory.
      alone: whether no other worker has to split every step in the same way.

    Raises:
      UserError: not even one sentence fits, it is not known how much memory is free, or "auto" is
        asked for where there are other workers.
    """
    hparams, gpus = record.hparams, step.gpus()
    microbatch = Microbatch(output_dir, hparams, hardware_name(gpus), step.num_replicas, alone)
    if microbatch.tokens:
        return microbatch
    batches = TokenBatches(
        generated.store("train").lengths, hparams.batch_tokens, hparams.max_length, seed=0
    )
    if gpus:
        how = f"tried on {hardware_name(gpus)}"

        def fits(tokens: int) -> bool:
            part = largest_microbatch(tokens, batches.longest, step.fixed_shapes)
            return step.fits([part] * step.num_replicas)

    else:
        free = free_memory()
        if not free:
            raise UserError(
                "microbatch_tokens=auto: the system does not tell how much memory is free. Give "
                "a number."
            )
        how = f"counted for {free / 1e9:,.1f} GB of free memory"
        weights = step.model.count_params()

        def fits(tokens: int) -> bool:
            shape = largest_microbatch(tokens, batches.longest, step.fixed_shapes).source.shape
            memory = step_memory(
                hparams, record.tokenizer.vocab_size, weights, shape[0] * shape[1], shape[1], True
            )
            # Weights and moments are there already.
            more = step.num_replicas * (memory.accumulators + _MARGIN * memory.passing)
            return more <= free

    microbatch.find(fits, batches.most_padded(step.num_replicas, step.fixed_shapes))
    print(
        f"microbatch_tokens=auto: {microbatch.tokens:,}, {how}, with sentences of "
        f"{batches.longest} tokens.",
        flush=True,
    )
    return microbatch


def with_microbatch(record: RunRecord, tokens: int) -> RunRecord:
    """Returns the record with a number of tokens in the place of what was asked for."""
    hparams = dataclasses.replace(record.hparams, microbatch_tokens=tokens)
    return dataclasses.replace(record, hparams=hparams)
