"""What Keras offers for any model works on this one: summaries, drawings, int8 and LoRA."""

import gc

import keras
import numpy as np
import pytest

from t2t_keras.layers import SharedEmbedding
from t2t_keras.models.transformer import Transformer


@pytest.fixture
def inputs():
    ids = np.random.default_rng(0).integers(1, 11, size=(2, 2, 5)).astype(np.int32)
    return {"source": ids[0], "target": ids[1]}


def test_a_summary_shows_what_is_in_each_layer(model):
    lines = []
    model.summary(expand_nested=True, print_fn=lines.append, line_length=79)
    text = "\n".join(lines)
    decoder = model.decoder[1]
    assert text.index("decoder_1 (TransformerDecoder)") < text.rindex("memory_attention")
    assert f"{decoder.memory_attention.count_params():,}" in text
    assert "(None, None, 8)" in text


@pytest.mark.parametrize("changes", [{}, dict(source_end=False, positions="rotary", d_k=6)])
def test_the_model_as_a_graph_of_layers_is_saved_and_drawn(make_model, inputs, changes, tmp_path):
    model = make_model(**changes)
    ids = {side: keras.Input([None], dtype="int32", name=side) for side in inputs}
    graph = keras.Model(ids, model.call(ids))
    np.testing.assert_allclose(graph(inputs), model(inputs), atol=1e-6)
    graph.save(tmp_path / "graph.keras")
    loaded = keras.saving.load_model(tmp_path / "graph.keras")
    np.testing.assert_allclose(loaded(inputs), model(inputs), atol=1e-6)
    assert loaded.count_params() == model.count_params()
    pytest.importorskip("pydot")
    drawn = keras.utils.model_to_dot(graph, show_layer_names=True).to_string()
    assert all(layer.name in drawn for layer in [*model.encoder, *model.decoder])


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize` method:UserWarning")
def test_int8(make_model, inputs, monkeypatch):
    """All matrices become int8, and what is decoded step by step is still the whole model's."""
    # Keras collects garbage after each layer, and among all that tests import that takes long.
    monkeypatch.setattr(gc, "collect", lambda: 0)
    model = make_model(num_layers=1)
    exact, matrices = model(inputs).numpy(), [w for w in model.weights if len(w.shape) == 2]
    model.quantize("int8")
    assert sum(w.dtype == "int8" for w in model.weights) == len(matrices)
    whole = model(inputs).numpy()
    assert 0 < np.abs(whole - exact).max() < 0.1 * np.abs(exact).max()
    memory, mask = model.encode(inputs["source"])
    cache = model.start_cache(memory, mask, block_size=5)
    before = np.pad(inputs["target"], [[0, 0], [1, 0]])
    for index in range(3):
        logits, cache = model.decode_step(before[:, index : index + 1], index, cache)
        np.testing.assert_allclose(logits[:, 0], whole[:, index], atol=1e-4)


def test_lora_trains_two_thin_matrices_for_each(make_model, inputs):
    model = make_model()
    before = model(inputs).numpy()
    kernels = []
    for layer in model.dense_layers():
        kernels.append(layer.kernel.shape)
        layer.enable_lora(rank=2)
    attentions = 2 * 4 + 2 * 8
    assert len(kernels) == attentions + 4 * 2
    np.testing.assert_allclose(model(inputs), before, atol=1e-6)
    thin = [w for w in model.trainable_weights if "lora" in w.path]
    assert sum(np.prod(w.shape) for w in thin) == sum(
        2 * (rows + columns) for rows, columns in kernels
    )
    assert not [w for w in model.trainable_weights if w.path.endswith("kernel")]
    thin[1].assign(np.ones(thin[1].shape))
    assert np.abs(model(inputs).numpy() - before).max() > 1e-3


@pytest.mark.parametrize(
    ("ours", "names"),
    [("d_model", "embedding_dim output_dim"), ("vocab_size", "input_dim vocabulary_size")],
)
def test_other_names_of_arguments_are_said_to_be_ours(ours, names):
    for name in names.split():
        for kind, size in ((SharedEmbedding, ()), (Transformer, (11,))):
            with pytest.raises(TypeError, match=f"'{name}'.*'{ours}'"):
                kind(*size, **{name: 8})
