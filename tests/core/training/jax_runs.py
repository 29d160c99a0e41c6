"""Run by test_jax_training.py in a process of its own: what a machine with JAX alone does.

python jax_runs.py folder: trains with the flags in folder/flags.json and checks what comes of it;
what TensorFlow must reproduce goes to folder/numbers.json and folder/logits.npy. It continues the
run folder/tensorflow, whose next steps TensorFlow has written to folder/next_steps.json.
"""

import contextlib
import dataclasses
import io
import json
import os
import re
import sys
from pathlib import Path

import numpy as np

# The requirements of setup.py that a machine with JAX need not have; "google" holds protobuf.
NOT_NEEDED = {"tensorflow", "tensorflow_text", "tensorflow_datasets", "google", "grpc", "sentencex"}
NOT_NEEDED |= {"sacrebleu", "sacremoses", "defusedxml", "tabulate", "urllib3", "matplotlib"}
SIZE = "num_layers=1,d_model=16,d_ff=32,num_heads=2,warmup_steps=10"
PLAIN = "dropout=0,clip_norm=1.0,max_length=12,batch_tokens=300,microbatch_tokens=128"
EVERY_OPTION = "pre_norm=true,self_attention_radius=2,positions=learned,max_positions=4"
EVERY_OPTION += ",feed_forward=parameter_attention,parameter_attention_heads=2"
EVERY_OPTION += ",attention_bias=true,softmax_bias=true,source_bias=true,embedding_norm=true"
EVERY_OPTION += ",share_embeddings=none,scale_embedding=false,start_id=1,first_position=1"
EVERY_OPTION += ",trainable=[encoder.*, decoder.*, target.*]"
NOISY = "dropout=0.3,attention_dropout=0.1,max_length=8"
NOISY += ",batch_tokens=150,microbatch_tokens=100,ema_decay=0.9"


def run(module, *arguments, status=0):
    """Runs a command, which must have this exit status; returns what it printed."""
    out, end = io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            module.run([module.__name__, *map(str, arguments)])
        except SystemExit as stop:
            end = stop.code
    assert end == status, out.getvalue()
    assert "Traceback" not in out.getvalue()
    return out.getvalue()


def arrays_in(run, step):
    from t2t_keras.training.checkpoint_files import path_at, read

    return read(path_at(run, step))[0]


def check_runs(folder, flags):
    """Trains, continues, evaluates, averages; writes the numbers of each step."""
    from t2t_keras.bin import t2t_avg_all, t2t_trainer
    from t2t_keras.training import progress, trainer
    from t2t_keras.training.backends.jax import JaxStep
    from t2t_keras.training.cost import read_costs

    trainer.LOG_STEPS = progress.LOG_STEPS = 10
    numbers, update = [], JaxStep.update
    plain, mean = folder / "plain", folder / "mean"

    def recorded(self, step, *arguments):
        actual = update(self, step, *arguments)
        numbers.append({"step": step, **{name: float(value) for name, value in actual.items()}})
        return actual

    def train(name, steps, hparams="", *more, status=0):
        first = (*flags, f"--hparams={SIZE},{hparams}") if hparams else ()
        directory = f"--output_dir={folder / name}"
        return run(t2t_trainer, *first, directory, f"--train_steps={steps}", *more, status=status)

    JaxStep.update = recorded
    train("plain", 0, PLAIN, "--schedule=train")
    out = train("plain", 20, "", "--schedule=train", "--profile_steps=2,3")
    assert "step 10/20  loss " in out
    # Of 300 tokens, rows of 32 hold 288; 128 are computed at once.
    count, length, share = re.search(r"(\d+) rows of (\d+) .* (\d+\.\d)% of", out).groups()
    assert (int(count), int(length)) == (3, 32)
    assert float(share) > 85
    assert "batching" in train("plain", 21, f"{PLAIN},batching=length", status=2)
    assert list((plain / "train" / "plugins" / "profile").glob("*/*.xplane.pb"))
    # It continues on another number of devices.
    train("plain", 25, "", "--cpu_replicas=2")
    assert read_costs(plain)[25].target_tokens == sum(
        step_numbers["tokens"] for step_numbers in numbers
    )
    for steps in (0, 5):
        train("every option", steps, f"{PLAIN},{EVERY_OPTION}", "--schedule=train")
    numbers_of = {"plain": numbers[:25], "every option": numbers[25:]}
    (folder / "numbers.json").write_text(json.dumps(numbers_of))

    # It goes on where TensorFlow's run ended.
    expected, numbers[:] = json.loads((folder / "next_steps.json").read_text()), []
    train("tensorflow", expected[-1]["step"] + 1, "", "--schedule=train")
    assert len(numbers) == len(expected)
    for ours, theirs in zip(numbers, expected, strict=True):
        for name in ("step", "loss", "negative_log_likelihood", "tokens", "gradient_norm"):
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-5, err_msg=name)

    check_curves(plain)
    check_evaluation(plain)

    for name, steps in (("whole", 5), ("parts", 3), ("parts", 5)):
        train(name, steps, NOISY, "--schedule=train", "--cpu_replicas=2")
    whole, parts = (arrays_in(folder / name, 5) for name in ("whole", "parts"))
    assert sum(name.startswith("optimizer/") for name in whole) == 1 + 3 * 31
    np.testing.assert_equal(parts, whole)

    run(t2t_avg_all, f"--model_dir={plain}", f"--output_dir={mean}", "--n=2")
    train("warm", 0, NOISY, "--schedule=train", f"--warm_start_from={plain}")
    best, last = (arrays_in(plain / at, 25) for at in ("best", ""))
    for other in (last, arrays_in(folder / "warm", 0)):
        np.testing.assert_equal({name: other[name] for name in best}, best)

    check_dry_runs_and_refusals(train)


def check_dry_runs_and_refusals(train):
    """What costs no training; `train` is that of `check_runs`, in which "plain" has 25 steps."""
    # Gradients of a step that is split are summed: those of three projections to queries and keys,
    # 3 * 2 * 16 * 16,384.
    for tokens, is_split in ((512, False), (64, True)):
        out = train("dry", 0, f"d_k=8192,{PLAIN}".replace("=128", f"={tokens}"), "--dry_run")
        megabytes = int(re.search(r"accumulators +(\d+) MB", out)[1])
        assert (megabytes >= 6) == is_split
    # JAX has 8 devices, and cannot be told after it has looked for them.
    for flag in ("--worker_gpu=1", "--cpu_replicas=9"):
        assert flag in train("plain", 25, "", flag, status=2)
    assert "The loss is nan" in train("nan", 9, f"{NOISY},learning_rate=1e38", status=2)
    assert "--warm_start_from" in train("mean", 30, status=2)


def check_curves(plain):
    """Curves without TensorBoard."""
    lines = (plain / "train" / "scalars.jsonl").read_text().splitlines()
    points = [json.loads(line) for line in lines]
    assert [point["step"] for point in points] == [10, 20]
    assert {"loss", "gradient_norm", "tokens_per_second"} < set(points[0])
    np.testing.assert_allclose(points[1]["learning_rate"], 16**-0.5 * 20**-0.5, rtol=1e-6)


def check_evaluation(plain):
    """t2t-eval measures the same loss as the training."""
    from t2t_keras.bin import t2t_eval
    from t2t_keras.evaluation.results import read_results

    run(t2t_eval, f"--output_dir={plain}", "--noeval_bleu", "--min_steps=25")
    [trained] = map(json.loads, (plain / "evaluations.json").read_text().splitlines())
    [scored] = read_results(plain / "eval_dev" / "results.jsonl")
    assert (trained["step"], scored.steps, scored.bleu) == (25, 25, None)
    for name in ("loss", "perplexity", "accuracy"):
        np.testing.assert_allclose(getattr(scored, name), trained[name], atol=2e-6)


def check_positions(batch):
    """Positions that no run has, against NumPy."""
    from numpy_transformer import NumpyTransformer

    from t2t_keras.models.transformer import Transformer

    for changes in (
        dict(positions="rotary"),
        dict(sinusoids="concatenated", first_position=2),
        dict(sinusoids="tensor2tensor"),
    ):
        model = Transformer(400, num_layers=1, d_model=16, d_ff=32, num_heads=2, **changes)
        model.build()
        weights = {
            weight.path.partition("/")[2]: np.asarray(weight.value) for weight in model.weights
        }
        expected = NumpyTransformer(model.config, weights).logits(
            *(batch[side][0] for side in batch)
        )
        actual = model({side: ids[:1] for side, ids in batch.items()})[0]
        np.testing.assert_allclose(actual, expected, atol=1e-5)


def check_steps(folder):
    """Microbatches, half precision, missing memory, compilation, on folder/batch.npz."""
    import jax
    from step_checks import (
        assert_same,
        check_average,
        check_dropout,
        check_half_precision,
        check_trained_parts,
        trained,
    )

    import t2t_keras as t2t
    from t2t_keras.data.batches import Batch
    from t2t_keras.models.transformer import Transformer
    from t2t_keras.training.backends.jax import JaxStep
    from t2t_keras.training.run_config import RunConfig

    config = RunConfig.load(folder / "plain")
    batch = dict(np.load(folder / "batch.npz"))
    # Without padding, as the reference needs it.
    check_positions(
        {side: batch[side][:1][:, batch[side][0] != 0] for side in ("source", "target")}
    )
    whole = [[Batch(**batch)]]
    halves = [[Batch(**{name: batch[name][rows::2] for name in batch})] for rows in (0, 1)]

    def steps(parts):
        return [(number, parts) for number in range(3)]

    def make(model=Transformer, devices=1, **changes):
        hparams = dataclasses.replace(config.hparams, **changes)
        vocab_size = config.tokenizer.vocab_size
        used = jax.devices()[:devices]
        return JaxStep(lambda: model.from_hparams(hparams, vocab_size), hparams, 1, used)

    # Adam's own epsilon would make updates of gradients that are nothing but rounding.
    expected = trained(make(adam_epsilon=1e-5), steps(whole))
    step = check_missing_memory(make, halves)
    assert_same(trained(step, steps(halves)), expected)
    check_half_precision(make, steps(whole), expected[1])
    check_packed_rows(make, config)
    check_dropout(make, whole[0][0])
    check_average(make, steps(halves))
    check_trained_parts(make, halves)
    check_compilations(make(schedule="cosine"), halves)

    # With an epsilon this large Adam's update is proportional to the gradient. The gradient is
    # compiled already, for check_dropout.
    noisy = dict(dropout=0.5, adam_epsilon=10.0, learning_rate=1000.0)
    actual = [
        trained(make(**noisy, recompute=recompute), steps(whole)[:1]) for recompute in (False, True)
    ]
    assert_same(*actual)

    model, _ = t2t.load_model(folder / "mean")
    np.save(folder / "logits.npy", model.predict_on_batch(batch))
    model.compile(t2t.Adam(0.001), t2t.SmoothedCrossEntropy(0.1))
    losses = model.fit(batch, batch["target"], epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


def check_packed_rows(make, config):
    """20 steps of packed rows, dealt out to 8 devices, are those of rows of one pair on one."""
    from step_checks import assert_same, trained

    from t2t_keras.data.batches import Rows, replica_batches
    from t2t_keras.data.dataset import open_generated

    store = open_generated(config.problem, config.data_dir).open_examples("train")
    short = np.flatnonzero(store.lengths.max(axis=1) <= 12)

    def results(rows, devices):
        step = make(adam_epsilon=1e-3, devices=devices)
        chosen = (np.roll(short, 7 * number)[:40] for number in range(20))
        steps = (list(replica_batches(store, pairs, 0, step, rows)) for pairs in chosen)
        return trained(step, enumerate(steps))

    actual = results(Rows(32, 2, 20), devices=8)
    assert_same(actual, results(Rows(12, 40, 0, max_pairs=1), devices=1))
    losses = [sums["loss"] / sums["tokens"] for sums in actual[1]]
    assert losses[-1] < losses[0] - 0.2


def check_missing_memory(make, halves):
    """Without memory, a step changes no weight; returns a step that has memory again."""
    import jax
    from step_checks import weights_of

    from t2t_keras.errors import OutOfMemoryError
    from t2t_keras.models.transformer import Transformer

    # Whether memory is missing at the next uses; after these, never.
    missing = []

    def use_memory():
        if missing and missing.pop(0):
            raise MemoryError("RESOURCE_EXHAUSTED: injected")
        return np.float32(0)

    class Model(Transformer):
        """Its memory may be missing, which its device tells when it gets there."""

        def call(self, inputs, training=None):
            used = jax.pure_callback(use_memory, jax.ShapeDtypeStruct((), np.float32))
            return super().call(inputs, training=training) + used

    step = make(Model, adam_epsilon=1e-5)
    before = weights_of(step)
    for missing[:], action in (
        ([True], lambda: step.update(0, halves)),
        ([False, True], lambda: step.update(0, halves)),
        ([True], lambda: step.update(0, halves[:1])),
        ([True], lambda: step.evaluate(halves[0])),
    ):
        with contextlib.suppress(OutOfMemoryError):
            action()
            raise AssertionError("there was memory")
        np.testing.assert_array_equal(weights_of(step), before)
    return step


def check_compilations(step, halves):
    """Only the first step compiles."""
    import jax

    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: compiled.append(event) if "backend_compile" in event else None
    )
    for number in range(4):
        step.update(number, halves)
        float(step.schedule(number))
        assert bool(compiled) == (number == 0), f"{len(compiled)} compilations in step {number}"
        compiled.clear()


if __name__ == "__main__":
    os.environ["KERAS_BACKEND"] = "jax"
    # What is there before any import came with Python's start.
    NOT_NEEDED -= set(sys.modules)
    assert {"tensorflow", "google", "grpc", "defusedxml"} <= NOT_NEEDED
    # As where they are not installed.
    sys.modules |= dict.fromkeys(NOT_NEEDED)
    sys.path.append(str(Path(__file__).parents[2] / "support"))
    import jax

    jax.config.update("jax_num_cpu_devices", 8)
    folder = Path(sys.argv[1])
    check_runs(folder, json.loads((folder / "flags.json").read_text()))
    check_steps(folder)
