"""The settings of decoding, as `--decode_hparams` takes them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from t2t_keras import settings
from t2t_keras.errors import UserError
from t2t_keras.settings import setting


@dataclasses.dataclass(frozen=True)
class DecodeConfig:
    """How to translate; the defaults are the paper's (section 6.1)."""

    beam_size: int = setting(4, "hypotheses that each step keeps; 1 = greedy", minimum=1)
    alpha: float = setting(
        0.6, "length penalty ((5 + length) / 6)^alpha; larger gives longer output", minimum=0.0
    )
    coverage_penalty: float = setting(
        0.0,
        "beta of Wu et al. (2016): how much a translation loses for every part of the source that "
        "it has not attended to",
        minimum=0.0,
    )
    extra_length: int = setting(
        50, "an output has at most this many tokens more than its input", minimum=0
    )
    max_length: int = setting(
        0,
        "tokens that an output has at most, its end counted; 0 = no limit but extra_length",
        minimum=0,
    )
    min_length: int = setting(
        1, "tokens that an output has at least, its end counted, if it may have them", minimum=1
    )
    samples: int = setting(
        0,
        "draws so many outputs from the model's distribution instead of searching; 0 = beam search",
        minimum=0,
    )
    temperature: float = setting(
        1.0, "of sampling: below 1 the likely symbols become likelier", minimum=1e-3
    )
    top_k: int = setting(0, "samples from so many of the likeliest symbols; 0 = all", minimum=0)
    top_p: float = setting(
        1.0,
        "samples from the fewest likeliest symbols with this probability together; 1 = all",
        minimum=1e-6,
        maximum=1.0,
    )
    seed: int = setting(0, "of sampling; a line's draws depend on it and the line's number")
    return_beams: bool = setting(
        False, "gives all hypotheses of the beam, or all samples, not only the first"
    )
    write_beam_scores: bool = setting(
        False, "writes the score after each translation of a file, behind a tab"
    )
    max_input_length: int = setting(
        512, "tokens of a line, its end counted, beyond which it is cut and counted", minimum=2
    )
    split_long: bool = setting(
        False,
        "splits a line that is too long into sentences, translates each, and joins them again",
    )
    lines_at_once: int = setting(
        1024,
        "lines that are read, sorted by length, translated and written together; 1 answers each "
        "line of a pipe at once",
        minimum=1,
    )
    batch_tokens: int = setting(
        4096,
        "most source tokens, padding counted, that are translated at once; a longer sentence is "
        "translated alone",
        minimum=1,
    )
    batches_at_once: int = setting(
        0,
        "batches translated, scored or aligned at the same time, each by its share of a CPU's "
        "cores; 0 = one for each core, up to 8, but one on a GPU or under xla",
        minimum=0,
    )
    weights_dtype: str = setting(
        "float32",
        "type of the weights; with bfloat16 the model also computes in it, but for softmax and "
        "layer normalisation: faster where the processor has instructions for it, and rounded",
        choices=("float32", "bfloat16"),
    )
    xla: bool = setting(
        False,
        "compiles the search by XLA: some seconds for each shape of a batch, then faster",
    )

    @property
    def num_hypotheses(self) -> int:
        """How many translations of a line are returned."""
        return (self.samples or self.beam_size) if self.return_beams else 1


# tensor2tensor's names, for users who come from there.
_LINEAGE_NAMES = {
    "batch_size": "batch_tokens",
    "sampling_temp": "temperature",
    "sampling_keep_top_k": "top_k",
}

_OF_BEAM_SEARCH = ("beam_size", "coverage_penalty")
_OF_SAMPLING = ("temperature", "top_k", "top_p", "seed")


def decode_config(
    changes: str | Mapping[str, Any] = "", defaults: Mapping[str, Any] | None = None
) -> DecodeConfig:
    """Returns the paper's settings with some changed.

    Args:
      changes: what the user gives, "name=value,..." or a mapping.
      defaults: what a problem has instead of the paper's settings for translation, by name.

    Raises:
      UserError: an unknown name, a wrong type or a value out of range; or what is changed has no
        effect, as it belongs to sampling and there is a beam search, or the other way round.
    """
    usual = dataclasses.replace(DecodeConfig(), **defaults or {})
    config = settings.override(usual, changes, what="decoding setting", renamed=_LINEAGE_NAMES)
    without_effect = [
        name
        for name in (_OF_BEAM_SEARCH if config.samples else _OF_SAMPLING)
        if getattr(config, name) != getattr(usual, name)
    ]
    if without_effect:
        names = " and ".join(without_effect)
        reason = (
            f"while samples={config.samples} draws outputs and searches for none: leave out one of "
            f"them."
            if config.samples
            else "in a beam search: set samples to draw outputs, or leave it out."
        )
        raise UserError(f"{names} would have no effect {reason}")
    return config
