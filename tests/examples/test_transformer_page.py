"""examples/transformer.py, the paper on one page, computes what the library computes."""

import dataclasses
import importlib.util
import itertools

import numpy as np
import pytest
import sacrebleu

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.keras_engine import Ensemble, Search
from t2t_keras.decoding.search import Constraints
from t2t_keras.models.transformer import Transformer
from t2t_keras.training.optimizer import Adam, SmoothedCrossEntropy, TransformerSchedule

VOCAB_SIZE = 23
SIZES = dict(num_layers=2, d_model=8, d_ff=12, num_heads=2, dropout=0.0)


@pytest.fixture(scope="module")
def page(root):
    spec = importlib.util.spec_from_file_location("page", root / "examples" / "transformer.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def settings(page):
    return page.Settings(".", vocab_size=VOCAB_SIZE, warmup_steps=20, learning_rate=0.4, **SIZES)


@pytest.fixture(scope="module")
def models(page, settings):
    """A model of the page and one of the library."""
    model = page.Transformer(settings)
    model((np.ones((1, 1), "int32"), np.ones((1, 1), "int32")))
    library = Transformer(VOCAB_SIZE, **SIZES)
    library.build()
    return model, library


@pytest.fixture
def library(models):
    """The library's model, with random weights."""
    random = np.random.default_rng(0)
    for weight in models[1].trainable_variables:
        around = 1.0 if weight.path.endswith("gamma") else 0.0
        weight.assign(random.normal(around, 0.4, weight.shape))
    return models[1]


@pytest.fixture
def model(models, library):
    """The page's model, with the same weights."""
    for ours, theirs in zip(page_layers(models[0]), library_layers(library), strict=True):
        ours.set_weights(theirs.get_weights())
    return models[0]


def page_layers(model):
    yield model.embedding
    for i in range(SIZES["num_layers"]):
        for part in ("encoder", "decoder"):
            residuals = [
                getattr(model, f"{part}_attention")[i],
                getattr(model, f"{part}_network")[i],
            ]
            if part == "decoder":
                residuals.insert(1, model.memory_attention[i])
            for residual in residuals[:-1]:
                yield from (*residual.sublayer.projections, residual.sublayer.output_projection)
                yield residual.norm
            yield from (*residuals[-1].sublayer.layers, residuals[-1].norm)


def library_layers(model):
    yield model.embedding
    for layer in itertools.chain(*zip(model.encoder, model.decoder, strict=True)):
        residuals = [layer.residual_1, layer.residual_2]
        attentions = [layer.self_attention]
        if layer in model.decoder:
            residuals.append(layer.residual_3)
            attentions.append(layer.memory_attention)
        for attention, residual in zip(attentions, residuals, strict=False):
            for name in ("query", "key", "value", "output"):
                yield getattr(attention, f"{name}_projection")
            yield residual.norm
        yield from (layer.feed_forward.inner, layer.feed_forward.outer, residuals[-1].norm)


@pytest.fixture
def batches():
    """Three batches of ids (source, target) with padding."""
    random = np.random.default_rng(1)

    def ids(*lengths):
        array = random.integers(2, VOCAB_SIZE, (len(lengths), max(lengths)), "int32")
        array[np.arange(len(lengths)), np.array(lengths) - 1] = 1
        return np.where(np.arange(max(lengths)) < np.array(lengths)[:, None], array, 0)

    return [(ids(5, 3, 1), ids(2, 6, 4)), (ids(4, 7), ids(5, 5)), (ids(2, 9, 9), ids(8, 1, 3))]


def named(batch):
    return dict(zip(("source", "target"), batch, strict=True))


def test_it_is_short_and_stands_alone(root):
    text = (root / "examples" / "transformer.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    assert "t2t_keras" not in text


def test_logits_are_the_library_s(model, library, batches):
    for batch in batches:
        real, logits = batch[1] != 0, model(batch).numpy()
        assert np.abs(logits).max() > 1
        expected = library(named(batch)).numpy()
        np.testing.assert_allclose(logits[real], expected[real], rtol=0, atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_losses_and_updates_are_the_library_s(page, settings, model, library, batches):
    schedule = TransformerSchedule(settings.d_model, settings.warmup_steps, settings.learning_rate)
    optimizer = Adam(schedule, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    library.compile(optimizer, SmoothedCrossEntropy(0.1), jit_compile=False)
    for step, batch in enumerate(batches, 1):
        before = model.get_weights()
        rate = model.optimizer.learning_rate = page.learning_rate(step, settings)
        assert rate == pytest.approx(float(schedule(step - 1)), rel=1e-6)
        expected = library.train_on_batch(named(batch), batch[1])
        assert model.train_on_batch(batch, batch[1]) == pytest.approx(expected, abs=1e-5)
        for ours, theirs in zip(page_layers(model), library_layers(library), strict=True):
            for weight, expected in zip(ours.get_weights(), theirs.get_weights(), strict=True):
                np.testing.assert_allclose(weight, expected, rtol=0, atol=1e-5)
        updates = zip(model.get_weights(), before, strict=True)
        assert min(np.abs(after - weight).max() for after, weight in updates) > 1e-3


def test_dropout_acts_in_training_alone(page, settings, batches):
    model = page.Transformer(dataclasses.replace(settings, dropout=0.5, num_layers=1))
    batch = next(iter(batches))
    # The learning rate is 0: only dropout makes a difference.
    model.run_eagerly = True
    assert model.train_on_batch(batch, batch[1]) != model.train_on_batch(batch, batch[1])
    model.run_eagerly = False
    assert model.test_on_batch(batch, batch[1]) == model.test_on_batch(batch, batch[1])


def test_the_schedule_is_the_library_s_after_its_warm_up(page, settings):
    schedule = TransformerSchedule(settings.d_model, settings.warmup_steps, settings.learning_rate)
    for step in (19, 20, 21, 500):
        rate = page.learning_rate(step, settings)
        assert rate == pytest.approx(float(schedule(step - 1)), rel=1e-6)


def test_beam_search_finds_what_the_library_finds(page, model, library):
    search = Search(Ensemble([library]), DecodeConfig(beam_size=4, alpha=0.6), Constraints())
    random = np.random.default_rng(0)
    table = random.normal(0, 0.6, (VOCAB_SIZE, SIZES["d_model"]))
    model.embedding.set_weights([table])
    library.embedding.set_weights([table])
    source = random.integers(2, VOCAB_SIZE, (40, 7), "int32")
    source[np.arange(7) >= random.integers(1, 8, (40, 1))] = 0
    rows = search(source).ids.numpy()[:, 0].tolist()
    expected = [ids[: ids.index(1)] for ids in rows]
    assert page.beam_search(model, source) == expected
    lengths = {*map(len, expected)}
    assert len(lengths) > 5
    assert max(lengths) == 7 + 50 - 1  # The longest output that is allowed, less its end.


@pytest.mark.parametrize("batch_tokens", [1, 40, 10_000])
def test_batches_hold_each_pair_once(page, batch_tokens):
    random = np.random.default_rng(2)
    pairs = [
        tuple([number, *[7] * length, 1] for length in random.integers(0, 12, 2))
        for number in range(10, 200)
    ]
    rows = []
    for sides in page.make_batches(pairs, batch_tokens, random):
        assert max(side.size for side in sides) <= batch_tokens or len(sides[0]) == 1
        rows += zip(*(side.tolist() for side in sides), strict=True)
    unpadded = [tuple([i for i in ids if i] for ids in row) for row in rows]
    assert sorted(unpadded) == pairs


@pytest.mark.usefixtures("eagerly")
def test_from_a_folder_to_bleu(page, tmp_path, monkeypatch, capsys):
    """What each part does is tested above; here, a "translation" is a copy of its source."""
    random = np.random.default_rng(3)
    lines = [" ".join(random.choice("a big dog sees the small cat".split(), 6)) for _ in range(70)]
    changed = [line.replace("dog", "cow") for line in lines]
    for name, texts in {
        "train": (lines, lines),
        "val": (lines, lines),
        "new": (lines, changed),
    }.items():
        for code, text in zip(("en", "fr"), texts, strict=True):
            (tmp_path / f"{name}.{code}").write_text("\n".join(text) + "\n", encoding="utf-8")
    checkpoints, averages = [], []
    get_weights = page.Transformer.get_weights

    def recorded(model):
        checkpoints.append(get_weights(model))
        return checkpoints[-1]

    monkeypatch.setattr(page.Transformer, "get_weights", recorded)
    monkeypatch.setattr(
        page.Transformer, "set_weights", lambda _, weights: averages.append(weights)
    )
    copies = lambda _, source: [[i for i in ids if i > 1] for ids in source.tolist()]  # noqa: E731
    monkeypatch.setattr(page, "beam_search", copies)
    sizes = dict(num_layers=1, d_model=8, d_ff=8, num_heads=2, vocab_size=40, epochs=6)
    page.main(page.Settings(str(tmp_path), target="fr", test="new", **sizes))
    (average,) = averages
    assert len(checkpoints) == 6
    for weight, last in zip(average, zip(*checkpoints[1:], strict=True), strict=True):
        np.testing.assert_allclose(weight, sum(last) / 5, rtol=1e-5, atol=1e-6)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 8
    bleu = sacrebleu.corpus_bleu(lines, [changed]).score
    assert 10 < bleu < 90
    assert printed[-2:] == ["val: 100.00 BLEU", f"new: {bleu:.2f} BLEU"]
