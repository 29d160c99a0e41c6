"""Trains the library or the one-page model, to compare with PyTorch on the same batches.

    python lockstep.py FOLDER --prepare=DIR        # DIR has train.en and train.de
    python lockstep.py FOLDER --side=tensorflow --replicas=2
    KERAS_BACKEND=jax python lockstep.py FOLDER --side=jax
    python lockstep.py FOLDER --side=page
    python torch_side.py FOLDER UPDATES            # in an environment with PyTorch
    python compare.py FOLDER

The first call writes FOLDER/start.npz (weights) and FOLDER/batches.npz. Each side writes
SIDE/losses.npy, SIDE/rates.npy, and its weights after some updates as SIDE/NUMBER.npz.
"""

import dataclasses
import itertools
import sys
from pathlib import Path

import numpy as np
from absl import app, flags

_ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(_ROOT / "benchmarks"), str(_ROOT / "examples")]

_PREPARE = flags.DEFINE_string("prepare", None, "Folder of train.en and train.de.")
_SIDE = flags.DEFINE_enum("side", "tensorflow", ["tensorflow", "jax", "page"], "What trains.")
_REPLICAS = flags.DEFINE_integer("replicas", 1, "Replicas of --side=tensorflow.", 1)
_UPDATES = flags.DEFINE_integer("updates", 1000, "Number of updates.", 1)

# The base model with half of its width, without dropout.
SIZES = dict(num_layers=6, d_model=256, d_ff=1024, num_heads=8, dropout=0.0)
VOCAB_SIZE, BATCH_TOKENS, WARMUP_STEPS = 8000, 512, 4000
# Updates after which the weights are compared.
CHECKED = [1, 2, 3, 5, *range(10, 101, 10), 200, 500, 1000]


def main(arguments: list[str]) -> None:
    """Prepares the work, or trains one side."""
    folder = Path(arguments[1])
    if _PREPARE.value:
        _prepare(folder, _PREPARE.value)
        return
    name = _SIDE.value
    if name == "tensorflow":
        name += f"_{_REPLICAS.value}"
    update, layers = _page() if _SIDE.value == "page" else _library()
    start = np.load(folder / "start.npz")
    for layer, names in zip(layers, _weight_names(), strict=True):
        layer.set_weights([start[key] for key in names])
    results, output = [], folder / name
    output.mkdir(exist_ok=True)
    for number, batch in enumerate(batches(folder)[: _UPDATES.value], 1):
        results.append(update(number, *batch))
        if number in CHECKED:
            weights = (layer.get_weights() for layer in layers)
            pairs = zip(_weight_names(), weights, strict=True)
            arrays = {
                key: value
                for keys, values in pairs
                for key, value in zip(keys, values, strict=True)
            }
            np.savez(output / f"{number}.npz", **arrays)
        if number % 100 == 0:
            print(name, number, results[-1], flush=True)
    for kind, values in zip(("losses", "rates"), zip(*results, strict=True), strict=True):
        np.save(output / f"{kind}.npy", np.array(values, "float64"))


def batches(folder: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns the batches (source, target)."""
    arrays = np.load(folder / "batches.npz")
    return [(arrays[f"source_{i}"], arrays[f"target_{i}"]) for i in range(len(arrays) // 2)]


def _prepare(folder: Path, text: str) -> None:
    import keras
    import transformer

    keras.utils.set_random_seed(1)
    lines = [
        Path(text, f"train.{code}").read_text("utf-8").removesuffix("\n").split("\n")
        for code in ("en", "de")
    ]
    subwords = transformer.learn_subwords(itertools.chain(*lines), VOCAB_SIZE)
    pairs = [*zip(*(subwords.encode(side, add_eos=True) for side in lines), strict=True)]
    random, taken = np.random.default_rng(1), []
    while len(taken) < _UPDATES.value:
        taken += transformer.make_batches(pairs, BATCH_TOKENS, random)
    arrays = {}
    for i, (source, target) in enumerate(taken[: _UPDATES.value]):
        arrays |= {f"source_{i}": source, f"target_{i}": target}
    folder.mkdir(exist_ok=True)
    np.savez(folder / "batches.npz", **arrays)
    _, layers = _page()
    start = {}
    for layer, names in zip(layers, _weight_names(), strict=True):
        start |= dict(zip(names, layer.get_weights(), strict=True))
    np.savez(folder / "start.npz", **start)
    tokens = sum(np.count_nonzero(target) for _, target in taken[: _UPDATES.value])
    print(f"{_UPDATES.value:,} batches with {tokens:,} target tokens")


def _weight_names():
    """Yields the names of the weights of each layer, in the order of a sentence's way."""
    yield ["embedding"]
    for i in range(SIZES["num_layers"]):
        for part, kinds in (("encoder", ["self"]), ("decoder", ["self", "memory"])):
            stem = f"{part}.{i}"
            for kind in kinds:
                yield from ([f"{stem}.{kind}.{name}"] for name in ("query", "key", "value", "out"))
                yield [f"{stem}.{kind}.gamma", f"{stem}.{kind}.beta"]
            for name in ("inner", "outer"):
                yield [f"{stem}.{name}.kernel", f"{stem}.{name}.bias"]
            yield [f"{stem}.gamma", f"{stem}.beta"]


def _page():
    """Returns the update of examples/transformer.py, and its layers in the order of the names."""
    import transformer

    fields = {field.name for field in dataclasses.fields(transformer.Settings)}
    sizes = {name: value for name, value in SIZES.items() if name in fields}
    settings = transformer.Settings(
        ".", vocab_size=VOCAB_SIZE, warmup_steps=WARMUP_STEPS, learning_rate=1.0, **sizes
    )
    model = transformer.Transformer(settings)
    model((np.ones((1, 1), "int32"), np.ones((1, 1), "int32")))

    def update(number, source, target):
        rate = transformer.learning_rate(number, settings)
        model.optimizer.learning_rate = rate
        return model.train_on_batch((source, target), target), rate

    layers = [model.embedding]
    for i in range(SIZES["num_layers"]):
        encoder = model.encoder_attention[i], model.encoder_network[i]
        decoder = model.decoder_attention[i], model.memory_attention[i], model.decoder_network[i]
        for *attentions, network in (encoder, decoder):
            for residual in attentions:
                attention = residual.sublayer
                layers += [*attention.projections, attention.output_projection, residual.norm]
            layers += [*network.sublayer.layers, network.norm]
    return update, layers


def _library():
    """Returns the update of the library's trainer, and its layers in the order of the names."""
    from measuring import new_step

    from t2t_keras import hyperparameters
    from t2t_keras.data.batches import Batch
    from t2t_keras.training.backends.base import Devices

    replicas, is_on_jax = _REPLICAS.value, _SIDE.value == "jax"
    changes = dict(label_smoothing=0.1, warmup_steps=WARMUP_STEPS, learning_rate=1.0, **SIZES)
    hparams = hyperparameters.hparams("transformer_base", **changes)
    if not is_on_jax:
        # Not `plan_devices`, which refuses more replicas than cores.
        import tensorflow as tf

        (cpu,) = tf.config.list_physical_devices("CPU")
        logical_devices = [tf.config.LogicalDeviceConfiguration()] * replicas
        tf.config.set_logical_device_configuration(cpu, logical_devices)
    names = [f"/cpu:{i}" for i in range(replicas)]
    planned = Devices(names, [], replicas, fixed_shapes=is_on_jax)
    step = new_step(hparams, VOCAB_SIZE, planned=planned)

    def update(number, source, target):
        if is_on_jax:
            # Padded, so that few shapes are compiled; padding changes nothing.
            rows, lengths = -len(source) % 16, [-ids.shape[1] % 16 for ids in (source, target)]
            source, target = (
                np.pad(ids, [(0, rows), (0, columns)])
                for ids, columns in zip((source, target), lengths, strict=True)
            )
        parts = [Batch(source[i::replicas], target[i::replicas]) for i in range(replicas)]
        sums = step.update(number - 1, [parts])
        rate = float(step.schedule(number - 1))
        return float(sums["loss"]) / float(sums["tokens"]), rate

    model = step.model
    layers = [model.embedding]
    for layer in itertools.chain(*zip(model.encoder, model.decoder, strict=True)):
        attentions, residuals = [layer.self_attention], [layer.residual_1, layer.residual_2]
        if layer in model.decoder:
            attentions.append(layer.memory_attention)
            residuals.append(layer.residual_3)
        for attention, residual in zip(attentions, residuals, strict=False):
            parts = ("query", "key", "value", "output")
            layers += [getattr(attention, f"{name}_projection") for name in parts]
            layers.append(residual.norm)
        layers += [layer.feed_forward.inner, layer.feed_forward.outer, residuals[-1].norm]
    return update, layers


if __name__ == "__main__":
    app.run(main)
