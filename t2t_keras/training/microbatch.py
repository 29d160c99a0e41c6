"""How many tokens a replica holds at once: the most that fit, found, remembered, and halved."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from t2t_keras.data.atomic_file import write_atomically
from t2t_keras.data.batches import TokenBatches, largest_microbatch
from t2t_keras.data.generated import Generated
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.training.cluster import Cluster
from t2t_keras.training.free_memory import free_memory
from t2t_keras.training.memory import step_memory
from t2t_keras.training.out_of_memory import OutOfMemoryError
from t2t_keras.training.run_record import RunRecord
from t2t_keras.training.training_cost import hardware_name
from t2t_keras.training.worker_fault import TRY_AGAIN

_FILE = "microbatch.json"
# The search ends when what fits and what does not are so close.
_CLOSE = 1.1
# Beside weights and moments, processes have grown to 1.4 to 1.9 times what was counted (README,
# "What fits"): a run that goes on keeps its number as long as there is as much.
_MARGIN, _LEAST_MARGIN = 2.25, 1.9


class StartAgainError(UserError):
    """What several workers cannot do in the middle of a step, but when they are started again."""

    exit_status = TRY_AGAIN


class Microbatch:
    """The most tokens a side that a replica holds at once, remembered in the run's directory.

    What dropout drops depends on how a step is split, so that a run that goes on must split as
    before to go on bit for bit.

    Args:
      output_dir: the run's directory.
      hparams: what the run uses.
      hardware: what it runs on, as `hardware_of` calls it; elsewhere, other sizes fit.
      replicas: how many there are; fewer or more have other memory each.
      least: returns the least of the numbers that all workers give, which have to split every step
        in the same way; None = there is one worker.

    Attributes:
      tokens: the number; 0 where it is still to be found.
    """

    def __init__(
        self,
        output_dir: str | Path,
        hparams: HParams,
        hardware: str,
        replicas: int = 1,
        least: Callable[[int], int] | None = None,
    ):
        self._least = least or (lambda number: number)
        self._alone = least is None
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
        remembered = self._remembered()
        if remembered:
            print(f"microbatch_tokens={remembered:,}, as {self._path} says.", flush=True)
        self.tokens = self._least(remembered or hparams.microbatch_tokens)

    def find(self, fits: Callable[[int], bool], most: int) -> None:
        """Finds and remembers the most tokens that fit, on every worker.

        Args:
          fits: tells whether so many do, here; raises `OutOfMemoryError` where nothing can.
          most: more would not make a step faster.

        Raises:
          UserError: not even one sentence fits.
        """
        try:
            found = self._least(most_that_fit(fits, self._fewest, max(most, self._fewest)))
        except OutOfMemoryError as error:
            raise self._nothing_fits() from error
        if not found:
            raise self._nothing_fits()
        self._set(found)

    def keeps(self, fits: Callable[[int], bool]) -> bool:
        """Returns whether the number that is remembered still fits, on every worker.

        Args:
          fits: tells whether so many do, here.
        """
        kept = fits(self.tokens)
        if not kept:
            print(
                f"microbatch_tokens={self.tokens:,} is too much for the memory that is free now; "
                f"what fits is found anew. Steps that are split in another way have other dropout.",
                flush=True,
            )
        return bool(self._least(int(kept)))

    def halve(self) -> None:
        """Halves and remembers the number.

        Raises:
          UserError: it is that of one sentence already.
          StartAgainError: there are other workers, which have begun the step already.
        """
        if self.tokens <= self._fewest:
            raise self._nothing_fits()
        before = self.tokens
        self._set(max(before // 2, self._fewest))
        if not self._alone:
            raise StartAgainError(
                f"Out of memory with microbatch_tokens={before:,}; all workers have to split a "
                f"step alike. Started again, they go on with {self.tokens:,}."
            )

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


def hardware_of(gpus: Sequence[str], cluster: Cluster | None) -> str:
    """Returns the name of what a number is remembered for.

    Several workers share one number, and their hardware need not be alike.

    Args:
      gpus: the name of each GPU of this process; none = the CPU.
      cluster: the workers; None = this process alone.
    """
    return f"{len(cluster.addresses)} workers" if cluster else hardware_name(gpus)


def remembered_microbatch(
    step, hparams: HParams, output_dir: str | Path, cluster: Cluster | None = None
) -> Microbatch:
    """Returns the microbatch of a run: what is asked for or remembered.

    Args:
      step: a `backend.Step`.
      hparams: what the run uses.
      output_dir: the run's directory.
      cluster: the workers that do every step together; None = this process alone.
    """
    hardware = hardware_of(step.gpus(), cluster)
    least = step.least if cluster else None
    return Microbatch(output_dir, hparams, hardware, step.num_replicas, least)


def find_microbatch(
    microbatch: Microbatch,
    step,
    record: RunRecord,
    generated: Generated,
    cluster: Cluster | None = None,
) -> None:
    """Finds what fits, where nothing is asked for and nothing is remembered.

    On a GPU sizes are tried with the longest sentences, since these take the most attention and as
    many logits as any. On a CPU, where a process that takes too much is killed, the memory of a
    step is counted and compared with what is free; so is what was found before, by a run that goes
    on.

    Args:
      microbatch: as `remembered_microbatch` returns it.
      step: a `backend.Step`.
      record: what the run uses.
      generated: its data.
      cluster: the workers that do every step together, all of which take the least that any of
        them finds; None = this process alone.

    Raises:
      UserError: not even one sentence fits, or it is not known how much memory is free.
    """
    hparams, gpus = record.hparams, step.gpus()
    if hparams.microbatch_tokens or (gpus and microbatch.tokens):
        return
    batches = TokenBatches(
        generated.store("train").lengths, hparams.batch_tokens, hparams.max_length, seed=0
    )
    longest, fixed = batches.longest, step.fixed_shapes
    if gpus:
        how = f"tried on {hardware_name(gpus)}"

        def fits(tokens: int) -> bool:
            return step.fits([largest_microbatch(tokens, longest, fixed)] * step.num_replicas)

    else:
        # Workers of one machine count at the same time, before any of them takes much.
        free = free_memory() // (cluster.workers_here if cluster else 1)
        how = f"counted for {free / 1e9:,.1f} GB of free memory"
        weights = step.model.count_params()

        def fits(tokens: int, margin: float = _MARGIN) -> bool:
            rows, length = largest_microbatch(tokens, longest, fixed).source.shape
            memory = step_memory(
                hparams, record.tokenizer.vocab_size, weights, rows * length, length, True
            )
            # Weights and moments are there already.
            more = len(step.replicas_here) * (memory.accumulators + margin * memory.passing)
            return more <= free

        if microbatch.tokens and microbatch.keeps(
            lambda tokens: not free or fits(tokens, _LEAST_MARGIN)
        ):
            return
        if not free:
            raise UserError(
                "microbatch_tokens=auto: the system does not tell how much memory is free. Give "
                "a number."
            )

    microbatch.find(fits, batches.most_padded(step.num_replicas, fixed))
    least_of_all = ", the least of all workers" if cluster else ""
    print(
        f"microbatch_tokens=auto: {microbatch.tokens:,}, {how}, with sentences of {longest} "
        f"tokens{least_of_all}.",
        flush=True,
    )


def with_microbatch(record: RunRecord, tokens: int) -> RunRecord:
    """Returns the record with a number of tokens in the place of what was asked for."""
    hparams = dataclasses.replace(record.hparams, microbatch_tokens=tokens)
    return dataclasses.replace(record, hparams=hparams)
