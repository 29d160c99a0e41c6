"""Small models of all kinds, inputs, and the ids of greedy decoding by whole forward passes."""

import functools

import keras
import numpy as np

from t2t_keras.data.problem import make_problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engine import pad_rows
from t2t_keras.decoding.translator import Translator
from t2t_keras.models.transformer import Transformer
from t2t_keras.text.tokenizer import SentencePieceTokenizer

SIZES = dict(num_layers=1, num_encoder_layers=1, num_decoder_layers=2, d_model=16, num_heads=2)
SIZES |= dict(d_ff=32)
# Name -> (settings of the model, of decoding).
VARIANTS = {
    "paper": ({}, {}),
    "two vocabularies": (
        dict(share_embeddings="target", sinusoids="concatenated", activation="gelu", d_k=6, d_v=4),
        dict(max_length=7),
    ),
    "other toolkits": (
        dict(pre_norm=True, attention_bias=True, norm_epsilon=1e-3, activation="silu")
        | dict(positions="learned", max_positions=9, first_position=2, embedding_norm=True)
        | dict(scale_embedding=False, source_bias=True, softmax_bias=True, start_id=3),
        dict(extra_length=2),
    ),
    "rotary": (
        dict(share_embeddings="none", positions="rotary", self_attention_radius=2)
        | dict(activation="leaky_relu"),
        dict(min_length=6),
    ),
    "set of words": (dict(share_embeddings="input", positions="none", activation="tanh"), {}),
    "source without end": (dict(source_end=False, activation="gelu_tanh"), {}),
    "parameters": (dict(feed_forward="parameter_attention", parameter_attention_heads=2), {}),
}


@functools.cache
def text() -> list[str]:
    """Returns the toy problem's sentences."""
    return [source for source, _ in make_problem("translate_ende_toy").examples("dev")]


def translator(name: str, dtype: str = "float32") -> Translator:
    """Returns a translator of a variant, with random weights."""
    options, settings = VARIANTS[name]
    tokenizer = SentencePieceTokenizer.train(text(), vocab_size=400)
    if options.get("share_embeddings") in ("target", "none"):
        source = SentencePieceTokenizer.train(text(), vocab_size=380)
        tokenizer = tokenizer.with_source(source)
    keras.utils.set_random_seed(5)
    sizes = tokenizer.vocab_size, None, tokenizer.source_vocab_size
    model = Transformer(*sizes, **SIZES, **options, dtype=dtype)
    model.build()
    noise = np.random.default_rng(1)
    weights = [
        2 * weight + (weight.ndim == 1) * noise.normal(0, 0.2, weight.shape)
        for weight in model.get_weights()
    ]
    model.set_weights(weights)
    config = DecodeConfig(**{"extra_length": 6, "max_input_length": 60, **settings})
    return Translator(model, tokenizer, config)


def inputs(translator: Translator) -> np.ndarray:
    """Returns ids of sentences of several lengths, with padding."""
    return pad_rows(translator.tokenizer.source.encode([*text()[:6], "a", ""]))


def greedy_ids(translator: Translator, source: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Returns the likeliest ids after each beginning of `found`: the same, if that is greedy."""
    [model], config = translator.models, translator.config
    logits = np.array(model({"source": source, "target": outputs}), np.float32)
    logits[:, :, 0] = -np.inf
    logits[:, : config.min_length - 1, 1] = -np.inf
    best = logits.argmax(2)
    limits = np.count_nonzero(source, axis=1) + config.extra_length
    limits = np.minimum(limits, config.max_length or limits)
    # What is blank is translated by nothing.
    limits = np.where((source > 1).any(axis=1), limits, 1)[:, None]
    best = np.where(np.arange(best.shape[1]) == limits - 1, 1, best)
    ended = np.cumsum(best == 1, axis=1) - (best == 1) > 0
    return np.where(ended, 0, best)
