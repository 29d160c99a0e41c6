"""Decoding settings, as `--decode_hparams` takes them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from t2t_keras import settings
from t2t_keras.errors import UserError
from t2t_keras.settings import setting

# Beyond these limits a search would run out of memory, or overflow int32 or float32.
_MAX_OUTPUTS, _MAX_TOKENS = 1000, 100_000


@dataclasses.dataclass(frozen=True)
class DecodeConfig:
    """How to translate; the defaults are the paper's (section 6.1)."""

    beam_size: int = setting(4, "beam width; 1 = greedy search", minimum=1, maximum=_MAX_OUTPUTS)
    alpha: float = setting(
        0.6,
        "exponent of the length penalty, log-probability / ((5 + length) / 6)^alpha; larger "
        "gives longer outputs",
        minimum=0,
        maximum=8,
    )
    coverage_penalty: float = setting(
        0.0,
        "beta of Wu et al. (2016), penalty for source tokens that get little attention; 0 = off",
        minimum=0,
        maximum=1e6,
    )
    extra_length: int = setting(
        50,
        "number of tokens by which an output may be longer than its input",
        minimum=0,
        maximum=_MAX_TOKENS,
    )
    max_length: int = setting(
        0,
        "maximum tokens of an output, EOS included; 0 = only extra_length limits it",
        minimum=0,
        maximum=_MAX_TOKENS,
    )
    min_length: int = setting(
        1,
        "minimum tokens of an output, EOS included; a lower maximum overrides it",
        minimum=1,
        maximum=_MAX_TOKENS,
    )
    samples: int = setting(
        0,
        "number of outputs to sample instead of beam search; 0 = beam search",
        minimum=0,
        maximum=_MAX_OUTPUTS,
    )
    temperature: float = setting(
        1.0,
        "sampling temperature; below 1 = closer to the most likely output",
        minimum=1e-3,
        maximum=1e3,
    )
    top_k: int = setting(
        0, "sample from this number of most likely tokens; 0 = all", minimum=0, maximum=10**6
    )
    top_p: float = setting(
        1.0,
        "sample from the fewest tokens with this total probability (nucleus); 1 = all",
        minimum=1e-6,
        maximum=1.0,
    )
    seed: int = setting(
        0,
        "seed of sampling; a line's samples depend on it and on the line's number",
        minimum=-(2**63),
        maximum=2**63 - 1,
    )
    return_beams: bool = setting(
        False, "return all hypotheses or samples, separated by tabs in files, not only the first"
    )
    write_beam_scores: bool = setting(
        False, "in files, write a tab and the score after each translation"
    )
    max_input_length: int = setting(
        512,
        "maximum tokens of an input line, EOS included; longer lines are truncated and counted",
        minimum=2,
        maximum=_MAX_TOKENS,
    )
    split_long: bool = setting(
        False, "split lines over max_input_length into sentences and join their translations"
    )
    terms: str = setting(
        "auto",
        "how to apply a glossary: soft = hints, for models trained with them; hard = force "
        "missing terms; auto = soft if the model supports hints, else hard",
        choices=("auto", "soft", "hard"),
    )
    check_placeholders: bool = setting(
        False,
        "take the first hypothesis that keeps all placeholders of its line, such as %s, {name} "
        "and addresses; if none does, repair the best",
    )
    lines_at_once: int = setting(
        1024,
        "number of lines to read, sort by length, translate and write together; 1 = answer each"
        " line of a pipe at once",
        minimum=1,
        maximum=10**9,
    )
    batch_tokens: int = setting(
        4096,
        "maximum source tokens of a batch, padding included; a longer sentence is its own batch",
        minimum=1,
        maximum=10**9,
    )
    batches_at_once: int = setting(
        0,
        "number of batches in parallel, which share a CPU's cores; 0 = one per core, up to 8; "
        "one on a GPU or with xla",
        minimum=0,
        maximum=256,
    )
    weights_dtype: str = setting(
        "float32",
        "dtype of the weights, float32 or bfloat16; bfloat16 also computes in bfloat16, except "
        "softmax and layer normalisation: less precise, faster where the processor supports it",
        choices=("float32", "bfloat16"),
    )
    xla: bool = setting(
        False, "compile the search with XLA: takes seconds for each batch shape, then is faster"
    )
    xla_for_one: bool = setting(
        False,
        "compile the search for single sentences with XLA, in the background; true by default "
        "in t2t-serve and with --decode_interactive (Keras engine)",
    )

    @property
    def num_hypotheses(self) -> int:
        """Number of translations to return for a line."""
        return (self.samples or self.beam_size) if self.return_beams else 1

    @property
    def returns_all(self) -> bool:
        """Whether all hypotheses of the search, or all samples, are returned."""
        return bool(self.samples) or self.return_beams or self.beam_size == 1

    def max_output_length(self, source_length: int) -> int:
        """Returns the maximum tokens of an output, EOS included."""
        max_length = source_length + self.extra_length
        return min(max_length, self.max_length) if self.max_length else max_length

    @property
    def max_positions(self) -> int:
        """Maximum tokens of a source or an output, EOS included."""
        return max(self.max_input_length, self.max_output_length(self.max_input_length))


def length_penalty(length: Any, alpha: Any) -> Any:
    """Returns ((5 + length) / 6)^alpha (Wu et al., 2016, equation 14), for numbers or tensors.

    The length includes the end of sentence.
    """
    return ((5 + length) / 6) ** alpha


# tensor2tensor's names for settings, and the names here.
_RENAMED = {
    "batch_size": "batch_tokens, and counts tokens, not sentences",
    "sampling_temp": "temperature",
    "sampling_keep_top_k": "top_k",
}

_BEAM_NAMES = ("beam_size", "coverage_penalty")
SAMPLING_NAMES = ("temperature", "top_k", "top_p", "seed")


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
    default_config = DecodeConfig(**(defaults or {}))
    config = settings.override(default_config, changes, noun="decoding setting", new_names=_RENAMED)
    ignored_names = [
        name
        for name in (_BEAM_NAMES if config.samples else SAMPLING_NAMES)
        if getattr(config, name) != getattr(default_config, name)
    ]
    if ignored_names:
        raise UserError(
            f"{' and '.join(ignored_names)} would have no effect with samples={config.samples} "
            f"(0 = beam search): leave them out, or change samples.",
            code="conflicting_settings",
        )
    return config
