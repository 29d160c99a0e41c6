"""A preset of KerasHub: a folder from which `keras_hub.models.Seq2SeqLM` loads the translator."""

import warnings
from pathlib import Path

from t2t_keras.data.problem import PairTransform, Problem
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import config_arguments
from t2t_keras.interop.exporters.supports import supported_model
from t2t_keras.interop.keras_hub import (
    TransformerBackbone,
    TransformerSeq2SeqLM,
    TransformerSeq2SeqLMPreprocessor,
    TransformerTokenizer,
)
from t2t_keras.settings import as_text
from t2t_keras.text.tokenizer import SentencePieceTokenizer, Tokenizer

# The beam, or how to sample, and the type to compute in are chosen where a preset is used.
_UNSUPPORTED = (
    *("coverage_penalty", "min_length", "split_long", "samples", "terms", "weights_dtype"),
    *("check_placeholders", "xla", "xla_for_one"),
)


def write(translator: Translator, folder: Path, dtype: str) -> None:
    """Writes the preset.

    Args:
      translator: the model, the vocabulary, and how long inputs and outputs may be.
      folder: where it is written.
      dtype: of the stored weights: "float32", "bfloat16", or "int8", as `quantize` makes them.

    Raises:
      UserError: it has what KerasHub cannot represent, which is named.
    """
    _check(translator)
    [model], tokenizer, config = translator.models, translator.tokenizer, translator.config
    stored = "bfloat16" if dtype == "bfloat16" else "float32"
    sizes = dict(vocab_size=model.vocab_size, source_vocab_size=model.source_vocab_size)
    backbone = TransformerBackbone(**sizes, dtype=stored, **config_arguments(model.config))
    backbone.transformer.set_weights(model.get_weights())
    longest = config.max_length or config.max_input_length + config.extra_length
    preprocessor = TransformerSeq2SeqLMPreprocessor(
        TransformerTokenizer(tokenizer.model_bytes),
        config.max_input_length,
        1 + longest,
        source_tokenizer=_own(tokenizer.source) if tokenizer.source is not tokenizer else None,
        extra_length=config.extra_length,
    )
    task = TransformerSeq2SeqLM(backbone, preprocessor)
    if dtype == "int8":
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Layer .* does not have a `quantize` method")
            task.quantize("int8")
    task.save_to_preset(str(folder))


def _own(source: Tokenizer) -> TransformerTokenizer:
    # KerasHub names the tokenizer's file, and the folder of its vocabulary, after this.
    return TransformerTokenizer(source.model_bytes, config_file="source_tokenizer.json")


def _check(translator: Translator) -> None:
    problem, tokenizer = translator.problem, translator.tokenizer
    supported_model(translator, "keras_hub", _UNSUPPORTED)
    for each in (tokenizer, tokenizer.source):
        if not isinstance(each, SentencePieceTokenizer):
            raise UserError(
                f"--format=keras_hub: expected SentencePiece's vocabularies (.model), got "
                f"tensor2tensor's (*{each.suffix}), which KerasHub cannot read.",
                code="other_vocabulary_kind",
            )
    own = type(problem)
    if (own.preprocess, own.postprocess) != (Problem.preprocess, Problem.postprocess):
        raise UserError(
            f"--format=keras_hub: expected text to text, got {problem.name}.", code="not_supported"
        )
    if any(type(t).prepare is not PairTransform.prepare for t in problem.pair_transforms.values()):
        raise UserError(
            f"--format=keras_hub: the model reads and writes what transforms="
            f"{as_text(problem.transforms)} makes of text, which KerasHub does not do. Export for "
            f"CTranslate2, or train without.",
            code="not_supported",
        )
