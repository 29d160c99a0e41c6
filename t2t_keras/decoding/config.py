"""Decoding settings, as `--decode_hparams` takes them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from t2t_keras import settings
from t2t_keras.errors import UserError
from t2t_keras.settings import setting

# Above these limits a search would exceed the memory, or a number its int32 or float32.
_MAX_OUTPUTS, _MAX_TOKENS = 1000, 100_000


def _number(default: float, minimum: float, maximum: float, meaning: str) -> Any:
    return setting(default, meaning, minimum=minimum, maximum=maximum)


@dataclasses.dataclass(frozen=True)
class DecodeConfig:
    """How to translate; the defaults are the paper's (section 6.1)."""

    beam_size: int = _number(
        4, 1, _MAX_OUTPUTS, "number of hypotheses kept at each step; 1 = greedy"
    )
    alpha: float = _number(
        0.6, 0, 8, "length penalty ((5 + length) / 6)^alpha; larger gives longer output"
    )
    coverage_penalty: float = _number(
        0.0, 0, 1e6, "beta of Wu et al. (2016): penalty for parts of the source without attention"
    )
    extra_length: int = _number(
        50, 0, _MAX_TOKENS, "most tokens of an output beyond the length of its input"
    )
    max_length: int = _number(
        0,
        0,
        _MAX_TOKENS,
        "most tokens of an output, EOS included; 0 = limited by extra_length only",
    )
    min_length: int = _number(
        1, 1, _MAX_TOKENS, "fewest tokens of an output, EOS included; the other limits go first"
    )
    samples: int = _number(
        0, 0, _MAX_OUTPUTS, "number of outputs to draw from the distribution; 0 = beam search"
    )
    temperature: float = _number(
        1.0, 1e-3, 1e3, "temperature of sampling; below 1, likely symbols become likelier"
    )
    top_k: int = _number(0, 0, 10**6, "number of the likeliest symbols to sample from; 0 = all")
    top_p: float = _number(
        1.0, 1e-6, 1.0, "sample from the fewest symbols with this total probability; 1 = all"
    )
    seed: int = _number(
        0, -(2**63), 2**63 - 1, "seed of sampling; draws depend on it and on the line's number"
    )
    return_beams: bool = setting(
        False, "return all hypotheses of the beam, or all samples, not only the first"
    )
    write_beam_scores: bool = setting(
        False, "after each translation of a file, write a tab and its score"
    )
    max_input_length: int = _number(
        512, 2, _MAX_TOKENS, "most tokens of a line, EOS included; longer lines are cut and counted"
    )
    split_long: bool = setting(
        False, "split lines that are too long into sentences, translate each, and join them"
    )
    terms: str = setting(
        "auto",
        "how to apply a glossary: soft = give the model hints that it was trained with; hard = "
        "force terms that are missing; auto = soft if the model supports hints, else hard",
        choices=("auto", "soft", "hard"),
    )
    check_placeholders: bool = setting(
        False,
        "choose the first hypothesis that keeps the placeholders of its line, such as %s, {name} "
        "and addresses; if there is none, repair the best",
    )
    lines_at_once: int = _number(
        1024,
        1,
        10**9,
        "number of lines that are read, sorted by length, translated and written together; with 1, "
        "each line of a pipe is answered at once",
    )
    batch_tokens: int = _number(
        4096,
        1,
        10**9,
        "most source tokens of a batch with padding; a longer sentence has its own batch",
    )
    batches_at_once: int = _number(
        0,
        0,
        256,
        "number of batches to translate, score or align in parallel, each on its share of a CPU's "
        "cores; 0 = one for each core, up to 8, or one on a GPU or with xla",
    )
    weights_dtype: str = setting(
        "float32",
        "type of the weights; bfloat16 is also the type of computation, except softmax and layer "
        "normalisation: faster on processors that support it, but rounded",
        choices=("float32", "bfloat16"),
    )
    xla: bool = setting(
        False, "compile the search with XLA: takes seconds for each shape of a batch, then faster"
    )
    xla_for_one: bool = setting(
        False,
        "compile the search for single sentences with XLA, in the background; the default of "
        "--decode_interactive, and of a server with Keras's engine, is true",
    )

    @property
    def num_hypotheses(self) -> int:
        """Number of translations to return for a line."""
        return (self.samples or self.beam_size) if self.return_beams else 1

    @property
    def returns_all(self) -> bool:
        """Whether all hypotheses of the search, or all samples, are returned."""
        return bool(self.samples) or self.return_beams or self.beam_size == 1

    def longest_output(self, source_length: int) -> int:
        """Returns the largest number of tokens of an output, with its end of sentence."""
        longest = source_length + self.extra_length
        return min(longest, self.max_length) if self.max_length else longest

    @property
    def max_positions(self) -> int:
        """Largest number of tokens of a source or an output, with its end of sentence."""
        return max(self.max_input_length, self.longest_output(self.max_input_length))


def length_penalty(length: Any, alpha: Any) -> Any:
    """Returns ((5 + length) / 6)^alpha (Wu et al., 2016, equation 14), of numbers or tensors.

    The length includes the end of sentence.
    """
    return ((5 + length) / 6) ** alpha


# tensor2tensor's names.
_RENAMED = {
    "batch_size": "batch_tokens, and counts tokens, not sentences",
    "sampling_temp": "temperature",
    "sampling_keep_top_k": "top_k",
}

_OF_BEAM_SEARCH = ("beam_size", "coverage_penalty")
OF_SAMPLING = ("temperature", "top_k", "top_p", "seed")


def decode_config(
    changes: str | Mapping[str, Any] | DecodeConfig = "",
    defaults: Mapping[str, Any] | None = None,
) -> DecodeConfig:
    """Returns the paper's settings with a problem's `defaults` and the user's `changes`.

    A `DecodeConfig` is returned unchanged.

    Raises:
      UserError: an unknown name, a wrong type or a value out of range; or a change without effect,
        such as a sampling setting in a beam search.
    """
    if isinstance(changes, DecodeConfig):
        return changes
    usual = dataclasses.replace(DecodeConfig(), **defaults or {})
    config = settings.override(usual, changes, noun="decoding setting", renamed=_RENAMED)
    ignored = [
        name
        for name in (_OF_BEAM_SEARCH if config.samples else OF_SAMPLING)
        if getattr(config, name) != getattr(usual, name)
    ]
    if ignored:
        raise UserError(
            f"{' and '.join(ignored)} would have no effect with samples={config.samples} (0 = beam "
            f"search): leave one of them out.",
            code="conflicting_settings",
        )
    return config
