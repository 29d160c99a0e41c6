"""The names that PyTorch's toolkits give to the weights of a layer."""

import re

import numpy as np

_LAYER = re.compile(r"layers\.(\d+)\.(.+)\.(weight|bias)")
_ATTENTION = {"self_attn": "self_attention", "encoder_attn": "memory_attention"}
_PROJECTIONS = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "output"}
_FEED_FORWARD = {"fc1": "inner", "fc2": "outer"}
_NORMS = {"self_attn_layer_norm": 1, "encoder_attn_layer_norm": 2}


def layer_weights(name: str, value: np.ndarray, side: str) -> tuple[str, np.ndarray] | None:
    """Returns the path and the value here of a weight of an encoder or decoder layer.

    Args:
      name: such as "layers.0.self_attn.q_proj.weight", as in fairseq and Hugging Face's models.
      value: the weight; PyTorch's matrices have the outputs first.
      side: "encoder" or "decoder".

    Returns:
      None for a name that no layer has.
    """
    match = _LAYER.fullmatch(name)
    if not match:
        return None
    number, part, kind = match.groups()
    owner, _, projection = part.partition(".")
    if owner in _ATTENTION and projection in _PROJECTIONS:
        place = f"{_ATTENTION[owner]}/{_PROJECTIONS[projection]}"
    elif part in _FEED_FORWARD:
        place = f"feed_forward/{_FEED_FORWARD[part]}"
    elif part in _NORMS or part == "final_layer_norm":
        last = 3 if side == "decoder" else 2
        leaf = "gamma" if kind == "weight" else "beta"
        return f"{side}_{number}/residual_{_NORMS.get(part, last)}/norm/{leaf}", value
    else:
        return None
    leaf = "kernel" if kind == "weight" else "bias"
    return f"{side}_{number}/{place}/{leaf}", value.T if leaf == "kernel" else value
