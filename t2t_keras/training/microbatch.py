"""The microbatch: the tokens that a replica processes at once, a whole step or a part that fits."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from t2t_keras.data.augmentation import OnlineAugmentation
from t2t_keras.data.batches import TokenBatchSampler
from t2t_keras.data.dataset import ExampleStore, Generated, open_generated
from t2t_keras.environment import free_memory
from t2t_keras.errors import TRY_AGAIN_STATUS, UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.io.files import MICROBATCH_FILE, read_json, write_json
from t2t_keras.training.backends import base as backend
from t2t_keras.training.backends.cluster import Cluster, cluster_from_environment
from t2t_keras.training.cost import hardware_name
from t2t_keras.training.distributed import Workers
from t2t_keras.training.memory import FLOAT32, step_memory
from t2t_keras.training.run_config import RunConfig, TrainOptions

# Tokens that a step of augmented pairs may have, relative to the average.
_SPARE = 1.03


class Microbatch:
    """The maximum number of source or target tokens in a microbatch, saved in the run's directory.

    Dropout masks depend on the split of a step, so a run must keep its split to continue bit for
    bit. The saved limit counts only for the same settings, GPUs, workers and replicas. All workers
    have the same limit, whatever their hardware.

    Attributes:
      tokens: the limit; 0 = not known yet.
    """

    def __init__(
        self,
        output_dir: str | Path,
        hparams: HParams,
        gpus: Sequence[str] = (),
        replicas: int = 1,
        cluster: Cluster | None = None,
    ):
        self._path = Path(output_dir) / MICROBATCH_FILE
        self._hparams, self._cluster = hparams, cluster
        self._conditions = {
            "microbatch_tokens": hparams.microbatch_tokens,
            "recompute": hparams.recompute,
            "gpus": [] if cluster else [*gpus],  # Workers may have different GPUs.
            "workers": len(cluster.addresses) if cluster else 1,
            "replicas": replicas,
        }
        self.tokens = hparams.microbatch_tokens
        if self._path.exists():
            self.tokens = self._read_tokens() or self.tokens

    def remember(self, tokens: int) -> None:
        """Sets and saves the limit; 0 (not even one sentence fits) raises `UserError`."""
        if not tokens:
            recompute = "" if self._hparams.recompute else "set recompute=true, "
            raise UserError(
                f"Out of memory with single sentences of max_length={self._hparams.max_length} "
                f"tokens. Lower max_length, {recompute}or use a smaller model or more memory.",
                code="out_of_memory",
            )
        self.tokens = tokens
        write_json(self._path, {"tokens": tokens, "of": self._conditions})

    def halve(self) -> None:
        """Halves and saves the limit.

        Raises:
          UserError: the limit is one sentence already; or there are other workers, which have begun
            the step and must be restarted.
        """
        old_tokens, minimum = self.tokens, self._hparams.max_length
        self.remember(max(old_tokens // 2, minimum) if old_tokens > minimum else 0)
        if self._cluster:
            raise UserError(
                f"Out of memory with microbatch_tokens={old_tokens:,}. All workers must split a "
                f"step in the same way. Start them again: they continue with {self.tokens:,}.",
                TRY_AGAIN_STATUS,
                code="out_of_memory",
            )

    def _read_tokens(self) -> int:
        try:
            content = read_json(self._path, "It is not used.", ("tokens", "of"))
            if content["of"] != self._conditions:
                return 0
            tokens = max(int(content["tokens"]), self._hparams.max_length)
        except UserError as error:
            print(error, flush=True)
            return 0
        except (ValueError, TypeError) as error:
            print(f"{self._path} is not used: {error}.", flush=True)
            return 0
        print(f"microbatch_tokens={tokens:,}, from {self._path}.", flush=True)
        return tokens


def microbatch_of_run(
    step: backend.Step,
    config: RunConfig,
    generated: Generated,
    output_dir: str | Path,
    workers: Workers,
    may_choose: bool = True,
) -> Microbatch:
    """Returns the microbatch of a run: as requested, as remembered, or chosen for this machine.

    On a GPU the choice is a whole step, which is halved whenever memory runs out. On a CPU, where a
    process with too much memory is killed, it is a whole step, halved until the `step_memory` is at
    most half of the free memory. All workers use their smallest limit. Without `may_choose`, an
    unknown limit stays unknown.

    Raises:
      UserError: not even one sentence fits, or the free memory cannot be determined.
    """
    hparams, gpus, cluster = config.hparams, step.gpus, workers.cluster
    microbatch = Microbatch(output_dir, hparams, gpus, step.num_replicas, cluster)
    microbatch.tokens = min(workers.gather(microbatch.tokens))
    if microbatch.tokens or not may_choose:
        return microbatch
    store, minimum = generated.open_examples("train"), hparams.max_length
    sampler = training_sampler(store.lengths, config, generated.corpora)
    expansion = row_expansion(config.augmentation(generated), store)
    shapes = step.fixed_shapes, step.packs_rows
    step_tokens = round(expansion * sampler.max_padded_tokens(step.num_replicas, *shapes))
    tokens, reason = max(step_tokens, minimum), f"a whole step on {hardware_name(gpus)}"
    if not gpus:
        tokens, reason = _largest_on_cpu(step, config, sampler, tokens, cluster)
    microbatch.remember(min(workers.gather(tokens)))
    note = ", the minimum over all workers" if cluster else ""
    print(f"microbatch_tokens=auto: {microbatch.tokens:,}, {reason}{note}.", flush=True)
    return microbatch


def _largest_on_cpu(
    step: backend.Step,
    config: RunConfig,
    sampler: TokenBatchSampler,
    tokens: int,
    cluster: Cluster | None,
) -> tuple[int, str]:
    """Returns the largest fitting microbatch up to `tokens`, 0 = none fits; and the reason."""
    hparams, minimum, free = config.hparams, config.hparams.max_length, free_memory()
    if free is None:
        raise UserError(
            "microbatch_tokens=auto: cannot determine the free memory. Give a number instead.",
            code="unknown_memory",
        )
    # Workers of one machine read the free memory at the same time, before they use much.
    free //= cluster.local_workers if cluster else 1
    num_trained = None
    if hparams.trainable:
        num_trained = sum(math.prod(weight.shape) for weight in step.model.trainable_weights)

    def needed_bytes(tokens: int) -> int:
        rows, length = sampler.worst_case_shape(tokens, step.fixed_shapes, step.packs_rows)
        memory = step_memory(hparams, config.vocab_sizes, rows * length, length, True, num_trained)
        # Weights and moments are in memory already.
        temporary = memory["at most"] - memory["weights"] - memory["optimizer"]
        return len(step.local_replicas) * temporary

    while tokens > minimum and 2 * needed_bytes(tokens) > free:
        tokens = max(tokens // 2, minimum)
    reason = f"for {free / 1e9:,.1f} GB of free memory, with sentences of {sampler.max_side} tokens"
    return tokens if needed_bytes(tokens) <= free else 0, reason


def dry_run(
    config: RunConfig, output_dir: str | Path, worker_gpu: int | None, options: TrainOptions
) -> str:
    """Estimates a step's memory on one replica, and a run's disk space; returns a report.

    Trains nothing. The microbatch is the one remembered by the run in `output_dir`, or the
    requested one; if neither is known, a whole step. Without a data_dir, assumes sentences of
    max_length tokens and the vocabulary size of the problem's settings.
    """
    cluster, hparams, problem = cluster_from_environment(), config.hparams, config.problem
    devices = backend.plan_devices(worker_gpu, options.xla, cluster, options.cpu_replicas)
    fixed_shapes, expansion, corpora = devices.fixed_shapes, 1.0, dict[str, int]()
    if config.data_dir:
        generated = open_generated(problem, config.data_dir)
        config = config.with_data(generated)
        store, vocab_sizes = generated.open_examples("train"), config.vocab_sizes
        lengths, corpora = store.lengths, generated.corpora
        expansion = row_expansion(config.augmentation(generated), store)
    else:
        rows = -(-hparams.batch_tokens // hparams.max_length) * devices.replicas
        lengths = np.full((rows, 2), hparams.max_length, np.int32)
        vocab_sizes = problem.vocab_size, None if problem.shared_vocabulary else problem.vocab_size
    sampler = training_sampler(lengths, config.with_batching(devices.batching), corpora)
    limit = Microbatch(output_dir, hparams, devices.gpus, devices.replicas, cluster).tokens
    step_tokens = round(expansion * sampler.max_padded_tokens(devices.replicas, fixed_shapes))
    tokens = min(limit or step_tokens, step_tokens)
    rows, length = sampler.worst_case_shape(tokens, fixed_shapes)
    accumulates = 0 < limit < step_tokens
    memory = step_memory(hparams, vocab_sizes, rows * length, length, accumulates)
    best_size = FLOAT32 * hparams.count_weights(*vocab_sizes)
    checkpoint_size = best_size + memory["optimizer"]
    disk_size = (options.keep_checkpoint_max + 1) * checkpoint_size + best_size
    lines = [f"{name:<12} {size / 1e6:>9,.0f} MB" for name, size in memory.items()]
    note = " Frozen weights are counted as trained." if hparams.trainable else ""
    return (
        f"Each of {devices.replicas} replica(s) with microbatch_tokens="
        f"{f'{limit:,}' if limit else 'auto'}, at most {rows:,} rows of {length:,} tokens a side "
        f"at once, compute_dtype={hparams.compute_dtype}, "
        f"recompute={str(hparams.recompute).lower()}:\n" + "\n".join(lines) + "\n"
        "At most: weights, optimizer, accumulators, and the larger of gradients and activations "
        f"with logits. The libraries' own memory is not included.{note}\n"
        f"On disk: a checkpoint of {checkpoint_size / 1e6:,.0f} MB; {disk_size / 1e6:,.0f} MB with "
        f"--keep_checkpoint_max={options.keep_checkpoint_max}, one more while it is written, and "
        f"best/."
    )


def training_sampler(
    lengths: np.ndarray, config: RunConfig, corpora: Mapping[str, int] = {}
) -> TokenBatchSampler:
    """Returns the sampler of a run; for `corpora` see `TokenBatchSampler`."""
    hparams, problem = config.hparams, config.problem
    mix = (problem.mix, problem.mix_until) if corpora else ((), ())
    limits = hparams.batch_tokens, hparams.max_length
    return TokenBatchSampler(
        lengths, *limits, config.random_seed, *mix, corpora, batching=hparams.batching
    )


def row_expansion(augmentation: OnlineAugmentation | None, store: ExampleStore) -> float:
    """Returns the factor by which augmentation may increase the tokens, or rows, of a step."""
    return _SPARE * augmentation.token_expansion(store) if augmentation else 1.0
