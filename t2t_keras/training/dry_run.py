"""What a step of a run will hold in memory, counted and told before any step is done."""

from pathlib import Path

from t2t_keras.data.batches import TokenBatches, largest_microbatch
from t2t_keras.data.generated import open_generated
from t2t_keras.training import backend
from t2t_keras.training.cluster import cluster_from_environment
from t2t_keras.training.memory import step_memory
from t2t_keras.training.microbatch import Microbatch, hardware_of
from t2t_keras.training.run_request import RunRequest
from t2t_keras.training.train_options import TrainOptions


def dry_run(
    request: RunRequest,
    output_dir: str | Path,
    worker_gpu: int | None = None,
    options: TrainOptions | None = None,
) -> str:
    """Returns what a step of the run will hold in memory on one replica, without doing one.

    The microbatch is what the run in `output_dir` remembers, or what is asked for; where it is
    still to be found, that of a step that is not split.

    Args:
      request: the run.
      output_dir: where it is, or will be.
      worker_gpu: number of GPUs; None = all that are visible, 0 = the CPU.
      options: of which `xla` and `cpu_replicas` count; None = the defaults.

    Raises:
      UserError: there is no data, or there are no such devices.
    """
    options, cluster = options or TrainOptions(), cluster_from_environment()
    devices = backend.plan_devices(worker_gpu, options.xla, cluster, options.cpu_replicas)
    generated, hparams = open_generated(request.problem, request.data_dir), request.hparams
    record = request.record(generated)
    batches = TokenBatches(
        generated.store("train").lengths, hparams.batch_tokens, hparams.max_length, seed=0
    )
    hardware = hardware_of(devices.gpus, cluster)
    asked = Microbatch(output_dir, hparams, hardware, devices.replicas).tokens
    most = batches.most_padded(devices.replicas, devices.fixed_shapes)
    # Fixed shapes are filled up to the microbatch, however little there is.
    held = asked if asked and devices.fixed_shapes else min(asked or most, most)
    rows, length = largest_microbatch(held, batches.longest, devices.fixed_shapes).source.shape
    memory = step_memory(
        hparams,
        record.tokenizer.vocab_size,
        record.make_model().count_params(),
        rows * length,
        length,
        accumulates=devices.accumulates or 0 < asked < most,
    )
    heading = (
        f"Each of {devices.replicas} replica(s) with microbatch_tokens="
        f"{f'{asked:,}' if asked else 'auto'}, at worst {rows:,} pairs of {length:,} tokens a side "
        f"at once, compute_dtype={hparams.compute_dtype}, "
        f"recompute={str(hparams.recompute).lower()}:"
    )
    sum_of = (
        "At most: weights, optimizer, accumulators, and the larger of gradients and activations "
        "with logits or work. What the libraries themselves take is not counted."
    )
    return "\n".join([heading, *memory.lines(), sum_of])
