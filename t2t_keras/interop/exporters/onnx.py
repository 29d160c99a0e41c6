"""Exports one ONNX file, built node by node: greedy decoding, ids to ids.

The graph has the encoder, and a loop over the decoder's step. tf2onnx 1.17 could convert
TensorFlow's graph, but needs 15 GB of memory for the base model, and its result is half as fast.
"""

import functools
import hashlib
import itertools
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization

from t2t_keras.decoding.translator import Translator
from t2t_keras.interop.exporters.exported import check_config, greedy_model, write_companion_files
from t2t_keras.layers.attention import MultiHeadAttention
from t2t_keras.layers.embedding import sinusoids
from t2t_keras.models.transformer import Transformer
from t2t_keras.special_ids import EOS_ID, PADDING_ID

# The first opset with Gelu, and the file format that the oldest runtimes with Gelu read.
_OPSET, _IR_VERSION = 20, 9
_BOOL, _INT = TensorProto.BOOL, TensorProto.INT64
_MASK_SCORE = np.float32(-1e9)  # Adding it to a score makes the attention weight 0.
_NO_END = np.iinfo(np.int64).max

# Operators by Keras's names of activations. SiLU is Sigmoid(x) times x.
_ACTIVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "elu": ("Elu", {}),
    "gelu": ("Gelu", {}),
    "gelu_tanh": ("Gelu", {"approximate": "tanh"}),
    "leaky_relu": ("LeakyRelu", {"alpha": 0.2}),
    "mish": ("Mish", {}),
    "relu": ("Relu", {}),
    "sigmoid": ("Sigmoid", {}),
    "silu": ("Sigmoid", {}),
    "softplus": ("Softplus", {}),
    "swish": ("Sigmoid", {}),
    "tanh": ("Tanh", {}),
}
_ALLOWED = {
    "feed_forward": ("feed_forward",),
    "activation": _ACTIVATIONS,
    "positions": ("sinusoidal", "learned", "rotary", "none"),
}


def onnx_model(translator: Translator) -> onnx.ModelProto:
    """Returns an ONNX model: "ids", int32 [B, S] -> "translation", int32 [B, L].

    Rows of both end with EOS, then padding; L is the length of the longest output.

    Raises:
      UserError: see `greedy_model`; or a layer or an activation of the model is not supported.
    """
    model, config = greedy_model(translator, "onnx"), translator.config
    check_config(model.config, "onnx", _ALLOWED)
    max_output_length = config.max_output_length(config.max_input_length)
    g = _Graph(model, config.max_input_length)
    ids = g.check_ids("ids", model.source_embedding.vocab_size)
    is_token = g("Greater", ids, PADDING_ID)
    lengths = g("ReduceSum", g("Cast", is_token, to=_INT), [1], keepdims=1)
    last_index = g("Min", g("Add", lengths, config.extra_length - 1), max_output_length - 1)
    # A blank sentence, which is only EOS or padding, ends at once.
    num_words = g("ReduceSum", g("Cast", g("Greater", ids, EOS_ID), to=_INT), [1], keepdims=1)
    last_index = g("Mul", last_index, g("Min", num_words, 1))

    memory, mask = g.encode(ids, is_token)
    attentions = [layer.memory_attention for layer in model.decoder]
    memories = [
        (g.keys(attention, memory), g.values(attention, memory)) for attention in attentions
    ]
    step = _Graph(model, max_output_length, outer=g)
    body = _step(step, memories, mask, last_index, config.min_length)

    batch, (d_k, d_v) = g("Shape", ids, end=1), model.config.head_widths(model.config.d_model)
    shapes = [[model.config.num_heads, *shape] for shape in ((d_k, 0), (0, d_v))]
    caches = [
        g("ConstantOfShape", g("Concat", batch, shape, axis=0)) for shape in shapes * len(memories)
    ]
    live = g("Expand", np.array([True]), g("Concat", batch, [1], axis=0))
    start = model.config.start_id
    embedded = g.embed(model.embedding, [[start]]) if start else np.zeros((1, 1, g.width))
    embedded = g("Expand", embedded, g("Concat", batch, [1, 1], axis=0))
    inputs = ["", g.constant(np.array(True)), embedded, live, *caches]
    outputs = [f"last_state_{number}" for number in range(2 + len(caches))]
    g.nodes.append(helper.make_node("Loop", inputs, [*outputs, "steps"], body=body))
    translations = g("Transpose", g("Squeeze", "steps", [2]), perm=[1, 0])
    translations = g("Slice", translations, [0], g("Shape", "ids", end=1), [0])
    g("Cast", translations, output="translation", to=TensorProto.INT32)
    value_info = functools.partial(helper.make_tensor_value_info, elem_type=TensorProto.INT32)
    graph = helper.make_graph(
        g.nodes,
        "greedy_decoding",
        [value_info("ids", shape=["sentences", "source_length"])],
        [value_info("translation", shape=["sentences", "target_length"])],
        list(g.constants.values()),
    )
    opset = helper.make_opsetid("", _OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=_IR_VERSION)


def _step(
    g: "_Graph", memories: list[tuple[str, str]], mask: str, last_index: str, min_length: int
) -> onnx.GraphProto:
    """Returns the body of the loop.

    Its state is `embedded`, the embedding of the previous symbol, float32 [B, 1, d_model]; `live`,
    whether a row has not ended, [B, 1]; and the `caches`, keys [B, h, d_k, n] and values
    [B, h, n, d_v] of each layer. A step also returns the chosen symbols, [B, 1].
    """
    x, caches, new_caches = _decode(g, memories, mask)
    best = g("ArgMax", g.logits(g.model.embedding, x, min_length), axis=1)
    best = g("Where", g("GreaterOrEqual", "index", last_index), EOS_ID, best)
    symbols = g("Where", "live", best, PADDING_ID)
    live = g("And", "live", g("Not", g("Equal", symbols, EOS_ID)))
    any_live = g("ReduceMax", g("Cast", live, to=TensorProto.INT32), keepdims=0)
    any_live = g("Cast", any_live, to=_BOOL)
    embedded = g.embed(g.model.embedding, symbols)
    types = [_BOOL, TensorProto.FLOAT, _BOOL, *[TensorProto.FLOAT] * len(caches)]
    names = zip(["going_on", "embedded", "live", *caches], types, strict=True)
    results = zip([any_live, embedded, live, *new_caches, symbols], [*types, _INT], strict=True)
    value_info = functools.partial(helper.make_tensor_value_info, shape=None)
    return helper.make_graph(
        g.nodes,
        "step",
        [helper.make_tensor_value_info("index", _INT, []), *itertools.starmap(value_info, names)],
        [*itertools.starmap(value_info, results)],
    )


def _decode(
    g: "_Graph", memories: list[tuple[str, str]], mask: str
) -> tuple[str, list[str], list[str]]:
    """Returns the decoder's states [B, 1, d_model], and the names of its old and new caches.

    Args:
      g: the body of the loop.
      memories: keys and values of the encoder's output, for each layer.
      mask: added to the scores of attention to the memory.
    """
    model = g.model
    x = g.add_positions(model.target_positions, "embedded")
    caches, new_caches = list[str](), list[str]()
    if model.config.embedding_norm:
        x = g.norm(model.target_norm, x)
    for number, (layer, memory) in enumerate(zip(model.decoder, memories, strict=True)):
        self_attention, memory_attention = layer.self_attention, layer.memory_attention
        past = f"keys_{number}", f"values_{number}"
        caches += past

        def attend_to_outputs(
            states: str,
            self_attention: MultiHeadAttention = self_attention,
            past: tuple[str, str] = past,
        ) -> str:
            current = g.keys(self_attention, states), g.values(self_attention, states)
            for cache, value, axis in zip(past, current, (3, 2), strict=True):
                extended = g("Concat", cache, value, axis=axis)
                if radius := model.config.self_attention_radius:
                    extended = g("Slice", extended, [-radius - 1], [_NO_END], [axis])
                new_caches.append(extended)
            keys, values = new_caches[-2:]
            return g.attend(self_attention, states, keys, values)

        def attend_to_memory(
            states: str,
            memory_attention: MultiHeadAttention = memory_attention,
            memory: tuple[str, str] = memory,
        ) -> str:
            keys, values = memory
            return g.attend(memory_attention, states, keys, values, mask)

        x = g.residual(layer.residual_1, x, attend_to_outputs)
        x = g.residual(layer.residual_2, x, attend_to_memory)
        x = g.residual(layer.residual_3, x, functools.partial(g.feed_forward, layer.feed_forward))
    return g.norm(model.decoder_norm, x) if model.config.pre_norm else x, caches, new_caches


class _Graph:
    """Builds a graph, or the body of a loop in another graph, from layers of a Transformer.

    A call adds a node and returns the name of its output; inputs are such names, or constants.

    Args:
      model: the Transformer.
      num_positions: number of positions.
      outer: for a loop's body, which computes one position, "index", the graph around it; or None.

    Attributes:
      nodes: the nodes added so far.
      constants: the constants of this graph and of the bodies in it.
      width: d_model.
    """

    def __init__(self, model: Transformer, num_positions: int, outer: "_Graph | None" = None):
        self.model, self.width = model, model.config.d_model
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[bytes, onnx.TensorProto] = outer.constants if outer else {}
        self._numbers: Iterator[int] = outer._numbers if outer else itertools.count()
        self._num_positions, self._index = num_positions, "index" if outer else ""

    def __call__(self, operator: str, *inputs: Any, output: str = "", **attributes: Any) -> str:
        output = output or f"{operator}_{next(self._numbers)}"
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        self.nodes.append(helper.make_node(operator, names, [output], **attributes))
        return output

    def constant(self, value: Any) -> str:
        """Returns the name of a constant: bool, int64 or float32; equal ones are stored once."""
        array = keras.ops.convert_to_numpy(value)
        dtype = {"b": np.bool_, "i": np.int64}.get(array.dtype.kind, np.float32)
        array = np.ascontiguousarray(array.astype(dtype)).reshape(array.shape)
        key = hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).digest()
        if key not in self.constants:
            name = f"constant_{len(self.constants)}"
            self.constants[key] = numpy_helper.from_array(array, name)
        return self.constants[key].name

    def check_ids(self, ids: str, vocab_size: int) -> str:
        """Returns int64 ids [max(B, 1), max(S, 1)] with an id beyond the table for negative ones.

        Gather would count negative ids from the end; an id beyond the table is an error.
        """
        ids = self("Cast", ids, to=_INT)
        ids = self("Where", self("Less", ids, PADDING_ID), vocab_size, ids)
        missing = self("Max", self("Sub", [1, 1], self("Shape", ids)), [0, 0])
        return self("Pad", ids, self("Concat", [0, 0], missing, axis=0), PADDING_ID)

    def encode(self, ids: str, is_token: str) -> tuple[str, str]:
        """Encodes ids [B, S]; `is_token` is False for padding.

        Returns:
          The memory [B, S, d_model], and the mask to add to scores, [B, 1, 1, S].
        """
        model = self.model
        if not model.config.source_end:
            is_token = self("Greater", ids, EOS_ID)
        x = self.embed(model.source_embedding, ids)
        x = self("Add", x, model.source_bias) if model.config.source_bias else x
        x = self.add_positions(model.source_positions, x)
        x = self.norm(model.source_norm, x) if model.config.embedding_norm else x
        mask = local_mask = self("Where", self("Unsqueeze", is_token, [1, 2]), 0.0, _MASK_SCORE)
        if radius := model.config.self_attention_radius:
            positions = self("Range", 0, self("Squeeze", self("Shape", ids, start=1)), 1)
            distances = self("Abs", self("Sub", positions, self("Unsqueeze", positions, [1])))
            local_mask = self("Where", self("LessOrEqual", distances, radius), mask, _MASK_SCORE)
        for layer in model.encoder:

            def attend(states: str, attention: MultiHeadAttention = layer.self_attention) -> str:
                keys, values = self.keys(attention, states), self.values(attention, states)
                return self.attend(attention, states, keys, values, local_mask)

            transform = functools.partial(self.feed_forward, layer.feed_forward)
            x = self.residual(layer.residual_1, x, attend)
            x = self.residual(layer.residual_2, x, transform)
        return self.norm(model.encoder_norm, x) if model.config.pre_norm else x, mask

    def embed(self, embedding: Any, ids: Any) -> str:
        """Embeds ids [...]."""
        x = self("Gather", embedding.table.embeddings, ids)
        return self("Mul", x, np.float32(self.width**0.5)) if embedding.scale else x

    def add_positions(self, positions: Any, x: str) -> str:
        """Adds position encodings to embeddings [B, n, d_model]."""
        if self.model.config.positions in ("rotary", "none"):
            return x
        table = positions(keras.ops.zeros((1, self._num_positions, self.width)))[0]
        return self("Add", x, self._rows(table, x))

    def _rows(self, table: Any, x: str) -> str:
        """Returns the row of the loop's position; outside of a loop, the rows for x [B, n, ...]."""
        if self._index:
            return self("Gather", table, self._index)
        return self("Slice", table, [0], self("Shape", x, start=1, end=2), [0])

    def norm(self, layer: Any, x: str) -> str:
        """Normalises x [..., d_model]."""
        return self("LayerNormalization", x, layer.gamma, layer.beta, epsilon=layer.epsilon)

    def residual(self, layer: Any, x: str, sublayer: Callable[[str], str]) -> str:
        """Adds the output of a sub-layer to x [B, n, d_model]."""
        if layer.pre_norm:
            return self("Add", x, sublayer(self.norm(layer.norm, x)))
        return self.norm(layer.norm, self("Add", x, sublayer(x)))

    def _dense(self, layer: Any, x: str, scale: float = 1.0) -> str:
        x = self("MatMul", x, layer.kernel * scale)
        return self("Add", x, layer.bias * scale) if layer.use_bias else x

    def feed_forward(self, layer: Any, x: str) -> str:
        """Transforms each position of x [B, n, d_model]."""
        name = self.model.config.activation
        operator, attributes = _ACTIVATIONS[name]
        inner = self._dense(layer.inner, x)
        active = self(operator, inner, **attributes)
        if operator == "Sigmoid" and name != "sigmoid":
            active = self("Mul", inner, active)
        return self._dense(layer.outer, active)

    def keys(self, layer: MultiHeadAttention, x: str) -> str:
        """Returns keys [B, h, d_k, n] of x [B, n, d_model]."""
        heads = self._heads(
            layer, self._dense(layer.key_projection, x), layer.key_dim, layer.rotary
        )
        return self("Transpose", heads, perm=[0, 2, 3, 1])

    def values(self, layer: MultiHeadAttention, x: str) -> str:
        """Returns values [B, h, n, d_v] of x [B, n, d_model]."""
        heads = self._heads(layer, self._dense(layer.value_projection, x), layer.value_dim)
        return self("Transpose", heads, perm=[0, 2, 1, 3])

    def attend(
        self, layer: MultiHeadAttention, x: str, keys: str, values: str, mask: str = ""
    ) -> str:
        """Attends from x [B, n, d_model]; `mask` is added to the scores [B, h, n, keys]."""
        queries = self._dense(layer.query_projection, x, layer.key_dim**-0.5)
        queries = self._heads(layer, queries, layer.key_dim, layer.rotary)
        scores = self("MatMul", self("Transpose", queries, perm=[0, 2, 1, 3]), keys)
        weights = self("Softmax", self("Add", scores, mask) if mask else scores)
        heads = self("Transpose", self("MatMul", weights, values), perm=[0, 2, 1, 3])
        joined_heads = self("Reshape", heads, [0, 0, layer.num_heads * layer.value_dim])
        return self._dense(layer.output_projection, joined_heads)

    def _heads(self, layer: MultiHeadAttention, x: str, width: int, rotary: bool = False) -> str:
        """Returns heads [B, n, h, width]; `rotary` rotates them by their positions."""
        x = self("Reshape", x, [0, 0, layer.num_heads, width])
        if not rotary:
            return x
        sine_table = keras.ops.convert_to_numpy(sinusoids(np.arange(self._num_positions), width))
        sines, cosines = (np.repeat(sine_table[:, i::2], 2, axis=1)[:, None] for i in (0, 1))
        turn = np.kron(np.eye(width // 2), [[0, 1], [-1, 0]])  # Turns pairs (a, b) into (-b, a).
        cosine_part = self("Mul", x, self._rows(cosines, x))
        sine_part = self("Mul", self("MatMul", x, turn), self._rows(sines, x))
        return self("Add", cosine_part, sine_part)

    def logits(self, embedding: Any, x: str, min_length: int) -> str:
        """Projects x [B, 1, d_model] to logits [B, V], -inf for excluded symbols."""
        bias = np.zeros(embedding.vocab_size) if embedding.bias is None else embedding.bias.numpy()
        bias[PADDING_ID] = -np.inf
        if min_length > 1:
            early_bias = bias.copy()
            early_bias[EOS_ID] = -np.inf
            bias = self("Where", self("Less", "index", min_length - 1), early_bias, bias)
        table = embedding.table
        matrix = table.embeddings if embedding.tied else table.reverse_embeddings
        return self("Gemm", self("Squeeze", x, [1]), matrix, bias, transB=int(embedding.tied))


FILE = "model.onnx"


def write(translator: Translator, folder: Path, dtype: str) -> None:
    """Writes the model with the vocabulary, a README.md and a config.json.

    The model takes batches of any size and length, and stops when all translations have ended.

    Args:
      translator: the model, the vocabulary and the settings.
      folder: the folder to write to.
      dtype: type of the stored weights: "float32", or "int8" with integer products.

    Raises:
      UserError: see `onnx_model`.
    """
    model = onnx_model(translator)
    onnx.checker.check_model(model)
    if dtype == "int8":
        model = _quantize(model)
    onnx.save(model, folder / FILE)
    write_companion_files(
        translator,
        folder,
        file=FILE,
        dtype=dtype,
        program="ONNX Runtime",
        imports="import onnxruntime",
        translate=f'session = onnxruntime.InferenceSession("{FILE}")\n'
        '[outputs] = session.run(None, {"ids": ids})',
        batch="Shorter rows of a batch end with padding.",
    )


def _quantize(model: onnx.ModelProto) -> onnx.ModelProto:
    logging.disable(logging.WARNING)  # onnxruntime recommends steps that change nothing here.
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / FILE
            kind, options = quantization.QuantType.QInt8, {"EnableSubgraph": True}
            quantization.quantize_dynamic(model, path, weight_type=kind, extra_options=options)
            return onnx.load(path)
    finally:
        logging.disable(logging.NOTSET)
