"""Run by test_jax_decoding.py in a process of its own: decoding where JAX is, and no TensorFlow.

python jax_decoding.py folder: decodes the runs folder/run and folder/other, and trains with the
flags in folder/flags.json; writes what TensorFlow must reproduce to folder/outputs.json.
"""

import contextlib
import io
import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np

NOT_NEEDED = ("tensorflow", "tensorflow_text", "tensorflow_datasets", "google", "grpc")
LINES = ["A man sleeps in the house.", "The woman sees the dog.", "A dog eats.", "The red house."]
LINES += ["", "The dog sees the man in the red house.", "A woman.", "big", "The house is big."]
SHORT = dict(extra_length=4)
BEAM = SHORT | dict(return_beams=True)
# name -> decoding settings, number of models, whether outputs have beginnings
CASES = {
    "greedy": (SHORT | dict(beam_size=1), 1, False),
    "beam": (BEAM, 1, False),
    "ensemble": (BEAM | dict(beam_size=2), 2, False),
    "constraints": (BEAM | dict(coverage_penalty=0.3, min_length=5), 1, True),
}
SAMPLES = BEAM | dict(samples=3, top_k=20, top_p=0.9, seed=2**40 + 1)
FORBIDDEN = "u"


def translator(run, settings, models=1, forbidden=()):
    from t2t_keras.decoding.translator import Translator

    others = [run.parent / "other"] * (models - 1)
    return Translator.from_run(run, None, settings, others, forbidden)


def search(engine, parts):
    """Returns the ids and the score of each output of each part."""
    names = ("ids", "prefix", "number")
    columns = ([getattr(part, name) for part in parts] for name in names)
    return [
        [([int(i) for i in ids if i], float(score)) for ids, score in outputs]
        for outputs in engine.outputs(*columns)
    ]


def outputs_of(run):
    """Returns the outputs of all cases, and what the last case's engine says of one of them."""
    actual = {}
    for name, (settings, models, begins) in CASES.items():
        model = translator(run, settings, models, [FORBIDDEN] if begins else ())
        prefixes = ["Ein Hund", "", "Das"] * 3 if begins else ()
        parts = [part for line in model.prepare(LINES, prefixes) for part in line.parts]
        actual[name] = search(model.engine, parts)
    sources = [part.ids for part in parts]
    targets = [np.array(outputs[0][0], np.int32) for outputs in actual["beam"]]
    actual["scores"] = [score for _, score in sorted(model.engine.scores(sources, targets))]
    attention = dict(model.engine.cross_attention(sources, targets))
    actual["attention"] = [attention[number].sum(axis=0).tolist() for number in sorted(attention)]
    weights = dict(model.engine.attention(sources[:2], targets[:2]))
    actual["weights"] = [weights[number]["decoder"].ravel().tolist() for number in range(2)]
    actual["next"] = model.engine.next_symbols(sources[0], targets[0][:2], 5)
    return actual


def check_samples(run):
    """Seed and number alone decide; the likeliest symbols are drawn."""
    model = translator(run, SAMPLES)
    parts = [part for line in model.prepare(LINES) for part in line.parts]
    samples = search(model.engine, parts)
    assert search(model.engine, parts) == samples
    moved = search(model.engine, parts[::-1])[::-1]
    for ours, theirs in zip(moved, samples, strict=True):
        assert [ids for ids, _ in ours] == [ids for ids, _ in theirs]
    for part in parts:
        part.number += 100
    assert search(model.engine, parts) != samples
    assert len({tuple(ids) for ids, _ in samples[0]}) == 3
    # The score is the model's probability, whatever was drawn from.
    sources = [part.ids for part in parts for _ in range(3)]
    targets = [np.array(ids, np.int32) for outputs in samples for ids, _ in outputs]
    scores = [score for _, score in sorted(model.engine.scores(sources, targets))]
    expected = [score for outputs in samples for _, score in outputs]
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def check_tensors():
    """Operators that TensorFlow's search has otherwise, in a compiled function."""
    import jax

    from t2t_keras.decoding import tensors

    random = np.random.default_rng(0)
    x, places = random.normal(size=(2, 3, 4, 5)), random.integers(0, 4, (2, 3, 6))
    gather = jax.jit(tensors.gather, static_argnums=(2, 3))
    expected = np.take_along_axis(x, places[..., None].repeat(5, axis=-1), axis=2)
    np.testing.assert_allclose(gather(x, places, 0, 2), expected, rtol=1e-6)
    expected = np.take_along_axis(x, places[:, :1, None], axis=3)[:, 0]
    np.testing.assert_allclose(gather(x[:, 0], places[:, 0], 2, 1), expected, rtol=1e-6)
    flags = jax.jit(lambda ids: tensors.on_host(lambda x: x[..., None] > [1, 2], ids, 2))
    np.testing.assert_array_equal(flags(places[0]), places[0][..., None] > [1, 2])


def run_command(module, *arguments):
    """Runs a command, which must succeed; returns what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        module.run([module.__name__, *map(str, arguments)])
    return out.getvalue()


def check_commands(folder, flags):
    """t2t-decoder and t2t-eval on the run, and a training that translates."""
    from t2t_keras.bin import t2t_decoder, t2t_eval, t2t_trainer

    run, greedy = folder / "run", "--decode_hparams=beam_size=1,extra_length=4"
    (folder / "lines.en").write_text("\n".join(LINES) + "\n")
    files = [f"--decode_from_file={folder}/lines.en", f"--decode_to_file={folder}/lines.de"]
    run_command(t2t_decoder, f"--output_dir={run}", greedy, *files)
    run_command(t2t_eval, f"--output_dir={run}", greedy)
    trained = folder / "trained"
    steps = ["--train_steps=2", "--eval_bleu", "--best_by=chrf", "--eval_early_stopping_steps=9"]
    out = run_command(t2t_trainer, *flags, f"--output_dir={trained}", *steps)
    [evaluation] = map(json.loads, (trained / "evaluations.json").read_text().splitlines())
    assert {"step", "loss", "bleu", "chrf"} <= set(evaluation), evaluation
    assert (trained / "best").is_dir()
    assert "A dog eats." in out or "The red house" in out, out
    shutil.rmtree(trained)


if __name__ == "__main__":
    os.environ["KERAS_BACKEND"] = "jax"
    # As where they are not installed; "google" may have come with Python's start.
    sys.modules |= {name: None for name in NOT_NEEDED if name not in sys.modules}
    assert sys.modules["tensorflow"] is None
    folder = Path(sys.argv[1])
    check_tensors()
    (folder / "outputs.json").write_text(json.dumps(outputs_of(folder / "run")))
    check_samples(folder / "run")
    check_commands(folder, json.loads((folder / "flags.json").read_text()))
