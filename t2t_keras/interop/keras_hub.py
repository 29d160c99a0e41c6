"""A `Transformer` as a task of KerasHub. Import this module before loading its presets.

import keras_hub
import t2t_keras.interop.keras_hub

translator = keras_hub.models.Seq2SeqLM.from_preset("runs/averaged/keras_hub")
translator.generate(["A man sleeps."])
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np
from keras import ops, tree

from t2t_keras.data.problem import PairTransform, Problem
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError, translated_errors
from t2t_keras.hyperparameters import config_arguments
from t2t_keras.interop.exporters.exported import supported_model
from t2t_keras.interop.tokenizers import BOUNDARY, segmentation_model
from t2t_keras.models.transformer import Transformer
from t2t_keras.settings import as_text
from t2t_keras.special_ids import EOS_ID, PADDING_ID, UNKNOWN_ID
from t2t_keras.text.tokenizer import SentencePieceTokenizer

Tensors = dict[str, Any]  # by their names
# Sources are padded to this length times a power of 2, so that few lengths are compiled.
_MIN_SOURCE_LENGTH = 16

_register = keras.saving.register_keras_serializable(package="t2t_keras")


@_register
class TransformerBackbone(keras_hub.models.Backbone):
    """A `Transformer` without its softmax, with KerasHub's names for inputs and outputs.

    Args:
      vocab_size: number of ids of the target, and of the source if they share ids.
      source_vocab_size: number of ids of the source; None = shared ids.
      dtype: type of weights and computation, as in every KerasHub backbone.
      name: name of the model.
      trainable: whether the weights are trained.
      **settings: fields of `ModelConfig` that differ from the paper's base model.

    Call arguments:
      inputs: {"encoder_token_ids", "decoder_token_ids": integers [batch, length],
        "encoder_padding_mask", "decoder_padding_mask": boolean, True = a token}. The first id of
        the decoder marks the start of the output; its value does not matter.
      training: whether dropout acts.

    Returns:
      {"encoder_sequence_output", "decoder_sequence_output": [batch, length, d_model]}; the
      decoder's output at position i predicts the decoder's id at i + 1.
    """

    def __init__(
        self,
        vocab_size: int,
        source_vocab_size: int | None = None,
        dtype: Any = None,
        name: str | None = None,
        trainable: bool = True,
        **settings: Any,
    ) -> None:
        transformer = Transformer(
            vocab_size,
            source_vocab_size=source_vocab_size,
            dtype=dtype,
            name="transformer",
            **settings,
        )
        transformer.build()
        inputs = {
            f"{side}_{kind}": keras.Input((None,), dtype="int32", name=f"{side}_{kind}")
            for side in ("encoder", "decoder")
            for kind in ("token_ids", "padding_mask")
        }
        memory, mask = _encode(transformer, inputs)
        target = ops.pad(inputs["decoder_token_ids"][:, 1:], [[0, 0], [0, 1]])
        states = transformer.decode(target, memory, mask)
        outputs = {"encoder_sequence_output": memory, "decoder_sequence_output": states}
        options = dict(dtype=dtype, name=name, trainable=trainable)
        super().__init__(inputs=inputs, outputs=outputs, **options)
        self.transformer = transformer
        self.token_embedding = transformer.embedding

    def encode(self, inputs: Tensors) -> tuple[Any, Any]:
        """Returns the encoder's output [batch, source length, d_model], and its mask."""
        return _encode(self.transformer, inputs)

    def load_weights(self, filepath: str | Path, **options: Any) -> None:
        """See Keras; raises `UserError` if the weights do not fit, such as int8 in another type."""
        advice = "Leave dtype out for an int8 preset, which cannot be converted."
        text = f"{filepath} does not fit the model"
        with translated_errors(ValueError, text, advice, code="other_model"):
            super().load_weights(filepath, **options)

    def enable_lora(self, rank: int, target_layer_names: Sequence[str] | None = None) -> None:
        """See KerasHub; freezes biases, which `save_lora_weights` does not save."""
        super().enable_lora(rank, target_layer_names)
        for weight in self.trainable_variables:
            weight.trainable = weight.name.startswith("lora")

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        sizes = {
            name: getattr(self.transformer, name) for name in ("vocab_size", "source_vocab_size")
        }
        return {**super().get_config(), **sizes, **config_arguments(self.transformer.config)}


def _encode(transformer: Transformer, inputs: Tensors) -> tuple[Any, Any]:
    is_token = ops.cast(inputs["encoder_padding_mask"], "bool")
    return transformer.encode(ops.where(is_token, inputs["encoder_token_ids"], PADDING_ID))


@_register
class TransformerTokenizer(keras_hub.tokenizers.SentencePieceTokenizer):
    """KerasHub's tokenizer with our special ids.

    If the SentencePiece model has more pieces than ids, it only divides text, and the ids of the
    resulting pieces are looked up.
    """

    backbone_cls = TransformerBackbone
    pad_token_id, end_token_id, start_token_id = PADDING_ID, EOS_ID, None
    special_token_ids = (PADDING_ID, EOS_ID)

    def set_proto(self, proto: Any) -> None:
        """See KerasHub."""
        super().set_proto(proto)
        splitter = None
        if proto is not None and self.token_to_id(BOUNDARY) != UNKNOWN_ID:
            model = segmentation_model(self.proto)
            splitter = keras_hub.tokenizers.SentencePieceTokenizer(model, dtype="string")
        # Bypasses Keras, which would save the splitter with the layer.
        object.__setattr__(self, "_splitter", splitter)

    def tokenize(self, inputs: Any) -> Any:
        """Returns the ids of text."""
        if self._splitter is None:
            return super().tokenize(inputs)
        pieces, boundary_id = self._splitter.tokenize(inputs), self.token_to_id(BOUNDARY)
        if isinstance(pieces, list):

            def id_of(piece: str) -> int:
                number = self.token_to_id(piece)
                return number if UNKNOWN_ID < number < boundary_id else UNKNOWN_ID

            ids = tree.map_structure(id_of, pieces)
            is_batch = ids and isinstance(ids[0], list)
            return ids if is_batch else np.array(ids, self.compute_dtype)
        import tensorflow as tf

        def mask_unknown(ids: tf.Tensor) -> tf.Tensor:
            return tf.where((ids > UNKNOWN_ID) & (ids < boundary_id), ids, UNKNOWN_ID)

        return tf.ragged.map_flat_values(mask_unknown, self._sentence_piece.string_to_id(pieces))


@_register
class TransformerSeq2SeqLMPreprocessor(keras_hub.models.Seq2SeqLMPreprocessor):
    """Converts text to ids and back, like the preprocessors of KerasHub's other tasks.

    Args:
      tokenizer: a `TransformerTokenizer`.
      encoder_sequence_length: maximum tokens of a source, including EOS; longer sources are cut.
      decoder_sequence_length: maximum tokens of an output, including start and EOS.
      source_tokenizer: tokenizer of sources with their own vocabulary; None = `tokenizer`.
      extra_length: maximum tokens of a generated output beyond the length of its input.
    """

    backbone_cls = TransformerBackbone
    tokenizer_cls = TransformerTokenizer

    def __init__(
        self,
        tokenizer: TransformerTokenizer,
        encoder_sequence_length: int = 512,
        decoder_sequence_length: int = 563,
        source_tokenizer: TransformerTokenizer | None = None,
        extra_length: int = 50,
        **kwargs: Any,
    ) -> None:
        super().__init__(tokenizer, encoder_sequence_length, decoder_sequence_length, **kwargs)
        self.source_tokenizer = source_tokenizer
        self.extra_length = extra_length

    def build(self, input_shape: Any) -> None:
        """Builds the layer that adds start and EOS."""
        super().build(input_shape)
        self.decoder_packer = keras_hub.layers.StartEndPacker(
            self.decoder_sequence_length,
            start_value=PADDING_ID,
            end_value=EOS_ID,
            pad_value=PADDING_ID,
            return_padding_mask=True,
        )

    def call(
        self, x: Any, y: Any = None, sample_weight: Any = None, **lengths: int | None
    ) -> tuple[Any, ...]:
        """Returns inputs, labels and weights for {"encoder_text", "decoder_text"}."""
        packed, *labels = super().call(x, y, sample_weight, **lengths)
        length = lengths.get("encoder_sequence_length")
        return self._with_own_source(packed, x["encoder_text"], length), *labels

    def generate_preprocess(
        self,
        x: Any,
        *,
        encoder_sequence_length: int | None = None,
        decoder_sequence_length: int | None = None,
        sequence_length: int | None = None,
    ) -> Tensors:
        """Returns the ids of sources and of output prefixes, padded to a few different shapes."""
        text = x["encoder_text"] if isinstance(x, dict) else x
        rows = (self.source_tokenizer or self.tokenizer)([text] if isinstance(text, str) else text)
        longest, length = 1 + max(map(len, rows)), _MIN_SOURCE_LENGTH
        while length < longest:
            length *= 2
        length = min(length, encoder_sequence_length or self.encoder_sequence_length)
        limit = decoder_sequence_length or sequence_length or self.decoder_sequence_length
        packed = super().generate_preprocess(
            x,
            encoder_sequence_length=length,
            decoder_sequence_length=min(limit, length + self.extra_length + 1),
        )
        return self._with_own_source(packed, text, length)

    def _with_own_source(self, packed: Tensors, text: Any, length: int | None) -> Tensors:
        if self.source_tokenizer is None:
            return packed
        ids, mask = self.encoder_packer(self.source_tokenizer(text), sequence_length=length)
        return {**packed, "encoder_token_ids": ids, "encoder_padding_mask": mask}

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        names = ("encoder_sequence_length", "decoder_sequence_length", "extra_length")
        config = {**super().get_config(), **{name: getattr(self, name) for name in names}}
        return config | {
            "source_tokenizer": keras.saving.serialize_keras_object(self.source_tokenizer)
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "TransformerSeq2SeqLMPreprocessor":
        """Returns the layer that `get_config` describes."""
        source = keras.saving.deserialize_keras_object(config["source_tokenizer"])
        return super().from_config({**config, "source_tokenizer": source})


@_register
class TransformerSeq2SeqLM(keras_hub.models.Seq2SeqLM):
    """Translates text with `generate` and the sampler of `compile`; default: greedy.

    Args:
      backbone: a `TransformerBackbone`.
      preprocessor: a `TransformerSeq2SeqLMPreprocessor`; None = ids in, ids out.
      **kwargs: arguments of every KerasHub task.
    """

    backbone_cls = TransformerBackbone
    preprocessor_cls = TransformerSeq2SeqLMPreprocessor

    def __init__(
        self,
        backbone: TransformerBackbone,
        preprocessor: TransformerSeq2SeqLMPreprocessor | None = None,
        **kwargs: Any,
    ) -> None:
        # Bypasses Keras, which would quantize tokenizers.
        object.__setattr__(self, "_preprocessor", preprocessor)
        states = backbone.output["decoder_sequence_output"]
        logits = backbone.token_embedding(states, reverse=True)
        super().__init__(inputs=backbone.input, outputs=logits, **kwargs)
        self.backbone = backbone

    def compile(self, *args: Any, sampler: Any = "greedy", **kwargs: Any) -> None:
        """Configures training and generation like KerasHub's tasks; default sampler: greedy."""
        super().compile(*args, sampler=sampler, **kwargs)

    def generate_step(
        self, inputs: Tensors, stop_token_ids: Sequence[int] | None = None
    ) -> Tensors:
        """Generates for one batch of ids; see KerasHub's tasks.

        With a preprocessor and `stop_token_ids`, an output is at most `extra_length` tokens longer
        than its source, and at most as long as the decoder's ids. Padding follows the output's end.

        Args:
          inputs: see the backbone; the mask of the decoder's ids marks the prompt.
          stop_token_ids: ids at which an output ends, or None.

        Returns:
          {"decoder_token_ids": integers, "decoder_padding_mask": boolean}, [batch, target length].
        """
        ids = inputs["decoder_token_ids"]
        in_prompt = ops.cast(inputs["decoder_padding_mask"], "bool")
        memory, mask = self.backbone.encode(inputs)
        # Samplers copy all of the cache and select its rows, so take out what needs neither.
        cache = self.backbone.transformer.start_cache(memory, mask, ops.shape(ids)[1])
        projection, _ = cache.pop("projection"), cache.pop("past")
        if stop_token_ids and self.preprocessor:
            lengths = ops.sum(ops.cast(mask, "int32"), axis=1)
            max_lengths = lengths + self.preprocessor.extra_length
            cache["max_lengths"] = ops.minimum(max_lengths, ops.shape(ids)[1] - 1)

        def predict_next(prompt: Any, cache: Tensors, index: Any) -> tuple[Any, Any, Tensors]:
            states, cache = self._step(prompt, cache, index)
            logits = self.backbone.transformer.embedding.logits(states, projection)[:, 0]
            return _constrain(logits, cache, index, stop_token_ids), states[:, 0], cache

        first = ops.min(ops.sum(ops.cast(in_prompt, "int32"), axis=1))
        cache, states = self._prefill(ids, cache, first)
        ids = self.sampler(
            next=predict_next,
            prompt=ids,
            cache=cache,
            index=first,
            mask=in_prompt,
            stop_token_ids=stop_token_ids,
            hidden_states=states,
            model=self,
        )
        if not stop_token_ids:
            return {"decoder_token_ids": ids, "decoder_padding_mask": ops.ones_like(in_prompt)}
        is_end = ops.any(ops.equal(ids[:, :, None], ops.array(stop_token_ids)), axis=2)
        ends = ops.cast(ops.logical_and(is_end, ops.logical_not(in_prompt)), "int32")
        is_token = ops.equal(ops.cumsum(ends, axis=1) - ends, 0)
        ids = ops.where(is_token, ids, PADDING_ID)
        return {"decoder_token_ids": ids, "decoder_padding_mask": is_token}

    def _step(self, prompt: Any, cache: Tensors, index: Any) -> tuple[Any, Tensors]:
        """Returns the states [batch, 1, d_model] that predict the id at `index`, and the cache."""
        previous = ops.take(prompt, index - 1, axis=1)[:, None]
        past = tree.map_structure(lambda x: x[:, :, :0], cache["recent"])
        whole_cache = {**cache, "past": past}
        states, new_cache, _ = self.backbone.transformer.step_states(
            previous, index - 1, whole_cache
        )
        return states, {**cache, "recent": new_cache["recent"]}

    def _prefill(self, ids: Any, cache: Tensors, first: Any) -> tuple[Tensors, Any]:
        """Fills the cache from the ids before `first`, the length of the shortest prompt.

        Returns:
          The cache, and the states of all positions [batch, length, d_model], 0 from `first` on.
        """

        def step(index: Any, cache: Tensors, states: Any) -> tuple[Any, Tensors, Any]:
            new_states, cache = self._step(ids, cache, index)
            is_current = ops.equal(ops.arange(ops.shape(ids)[1]), index - 1)[None, :, None]
            return index + 1, cache, ops.where(is_current, new_states, states)

        d_model = self.backbone.transformer.config.d_model
        states = ops.zeros((*ops.shape(ids), d_model), self.compute_dtype)
        start = ops.ones_like(first), cache, states
        return ops.while_loop(lambda index, *_: index <= first, step, start)[1:]


def _constrain(
    logits: Any, cache: Tensors, index: Any, stop_token_ids: Sequence[int] | None
) -> Any:
    """Excludes padding from logits [batch, vocab_size], and at the length limit all but the end."""
    vocabulary = ops.arange(logits.shape[-1])[None]
    allowed = ops.not_equal(vocabulary, PADDING_ID)
    if "max_lengths" in cache and stop_token_ids:
        is_end = ops.equal(vocabulary, stop_token_ids[0])
        allowed = ops.where((index >= cache["max_lengths"])[:, None], is_end, allowed)
    return ops.where(allowed, logits, -float("inf"))


# Settings that presets cannot hold. Users choose search or sampling, and the computation's type.
_UNSUPPORTED = (
    *("coverage_penalty", "min_length", "split_long", "samples", "terms", "weights_dtype"),
    *("check_placeholders", "xla", "xla_for_one"),
)


def write(translator: Translator, folder: Path, dtype: str) -> None:
    """Writes the preset.

    Args:
      translator: the model, the vocabulary, and the length limits.
      folder: the folder to write to.
      dtype: type of the stored weights: "float32", "bfloat16", or "int8", by Keras's `quantize`.

    Raises:
      UserError: KerasHub cannot represent the model.
    """
    _check(translator)
    [model], tokenizer, config = translator.models, translator.tokenizer, translator.config
    stored_dtype = "bfloat16" if dtype == "bfloat16" else "float32"
    sizes = dict(vocab_size=model.vocab_size, source_vocab_size=model.source_vocab_size)
    backbone = TransformerBackbone(**sizes, dtype=stored_dtype, **config_arguments(model.config))
    backbone.transformer.set_weights(model.get_weights())
    max_output_length = config.max_length or config.max_input_length + config.extra_length
    source_tokenizer = None
    if tokenizer.source is not tokenizer:
        # KerasHub derives the folder of the vocabulary from this name.
        file = "source_tokenizer.json"
        source_tokenizer = TransformerTokenizer(tokenizer.source.model_bytes, config_file=file)
    preprocessor = TransformerSeq2SeqLMPreprocessor(
        TransformerTokenizer(tokenizer.model_bytes),
        config.max_input_length,
        1 + max_output_length,
        source_tokenizer=source_tokenizer,
        extra_length=config.extra_length,
    )
    task = TransformerSeq2SeqLM(backbone, preprocessor)
    if dtype == "int8":
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Layer .* does not have a `quantize` method")
            task.quantize("int8")
    task.save_to_preset(str(folder))


def _check(translator: Translator) -> None:
    problem, tokenizer = translator.problem, translator.tokenizer
    supported_model(translator, "keras_hub", _UNSUPPORTED)
    for side in (tokenizer, tokenizer.source):
        if not isinstance(side, SentencePieceTokenizer):
            raise UserError(
                f"--format=keras_hub: expected SentencePiece's vocabularies (.model), got "
                f"tensor2tensor's (*{side.suffix}), which KerasHub cannot read.",
                code="other_vocabulary_kind",
            )
    kind = type(problem)
    if (kind.preprocess, kind.postprocess) != (Problem.preprocess, Problem.postprocess):
        raise UserError(
            f"--format=keras_hub: expected text to text, got {problem.name}.", code="not_supported"
        )
    if any(type(t).prepare is not PairTransform.prepare for t in problem.pair_transforms.values()):
        raise UserError(
            f"--format=keras_hub: the model needs transforms={as_text(problem.transforms)} of "
            f"text, which KerasHub does not have. Export for CTranslate2, or train without them.",
            code="not_supported",
        )
