"""Table 2: BLEU and training cost in floating point operations.

The paper's estimate (section 6.2): seconds of training x GPUs x what a GPU sustains.
"""

import contextlib
import math
import re
from collections.abc import Sequence
from typing import Any

from t2t_keras import registry
from t2t_keras.errors import UserError
from t2t_keras.evaluation.results import Result
from t2t_keras.tables.comparable import newest_result
from t2t_keras.tables.rendering import Table

# BLEU and FLOPs, each EN-DE and EN-FR; None = the paper gives none.
_PAPER = {
    "ByteNet": (23.75, None, None, None),
    "Deep-Att + PosUnk": (None, 39.2, None, 1.0e20),
    "GNMT + RL": (24.6, 39.92, 2.3e19, 1.4e20),
    "ConvS2S": (25.16, 40.46, 9.6e18, 1.5e20),
    "MoE": (26.03, 40.56, 2.0e19, 1.2e20),
    "Deep-Att + PosUnk ensemble": (None, 40.4, None, 8.0e20),
    "GNMT + RL ensemble": (26.30, 41.16, 1.8e20, 1.1e21),
    "ConvS2S ensemble": (26.36, 41.29, 7.7e19, 1.2e21),
    "Transformer base": (27.3, 38.1, 3.3e18, 3.3e18),
    "Transformer big": (28.4, 41.8, 2.3e19, 2.3e19),
}
# Our sets for EN-DE and EN-FR, and of how many checkpoints the model is the mean (section 6.1).
_OURS = {
    "Transformer base": ("transformer_base", "transformer_base", 5),
    "Transformer big": ("transformer_big", "transformer_big_enfr", 20),
}
# Section 5.2: hours of training on 8 P100, and seconds a step.
_TRAININGS = {"transformer_base": (12.0, 0.4), "transformer_big": (3.5 * 24, 1.0)}
_MOST_SECONDS = 1e12  # No training took 30,000 years.
# Section 6.2, footnote: what a GPU sustains in single precision, TFLOP/s.
_SUSTAINED_TFLOPS = {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}

_COLUMNS = {
    "model": "model",
    "bleu_ende": "EN-DE",
    "bleu_enfr": "EN-FR",
    "our_bleu_ende": "our sacreBLEU EN-DE",
    "our_bleu_enfr": "our sacreBLEU EN-FR",
    "flops_ende": "FLOPs EN-DE",
    "flops_enfr": "FLOPs EN-FR",
    "time": "training time",
    "hardware": "on",
    "flops": "FLOPs, computed",
}
_NOTES = """
FLOPs = seconds x GPUs x what a GPU sustains in single precision (K80 2.8, K40 3.7, M40 6.0, P100
9.5 TFLOP/s). The paper's own come from its hours; its step times give less for the base model.

Ours is the newest score of an unchanged set on the full newstest2014 by one model, the mean of as
many checkpoints as the paper's (base 5, big 20), with beam 4 and alpha 0.6. The paper's BLEU is of
text tokenised and split at hyphens, which is often higher: compare with it what the results below
call compound_split.
"""


def cost_row(
    hparams_set: str = "",
    gpus: int = 8,
    hardware: str = "P100",
    hours: float = 0.0,
    step_seconds: float = 0.0,
) -> dict[str, Any]:
    """Returns a row of Table 2 with the cost of a training of so many hours or seconds a step.

    The number of steps is the set's `train_steps`; with `hours` any set names the row. The
    hardware is a GPU that the paper names, or the TFLOP/s that one sustains.
    """
    if bool(hours) == bool(step_seconds) or not 0 < hours + step_seconds < math.inf:
        raise UserError(
            f"Expected a positive number as either --hours or --step_seconds of a training, got "
            f"{hours:g} and {step_seconds:g}.",
            code="conflicting_settings",
        )
    seconds, time = hours * 3600, f"{hours / 24:g} days" if hours >= 48 else f"{hours:g} hours"
    if step_seconds:
        if not hparams_set:
            raise UserError(
                "--step_seconds needs --hparams_set, which has the number of steps.",
                code="conflicting_settings",
            )
        steps = registry.hparams(hparams_set).train_steps
        seconds, time = step_seconds * steps, f"{steps:,} steps of {step_seconds:g} s"
    gpu, tflops = _gpu(hardware)
    return {
        "model": hparams_set,
        "set": hparams_set or None,
        "time": time,
        "seconds": seconds,
        "gpus": gpus,
        "tflops": tflops,
        "hardware": f"{gpus} x {gpu}",
        "flops": seconds * gpus * tflops * 1e12,
    }


def _gpu(hardware: str) -> tuple[str, float]:
    """Returns a name, and the TFLOP/s sustained, given a name of the paper's or the number."""
    if tflops := _SUSTAINED_TFLOPS.get(hardware.upper()):
        return hardware.upper(), tflops
    with contextlib.suppress(ValueError):
        if 0 < (tflops := float(hardware)) < math.inf:
            return f"{tflops:g} TFLOP/s", tflops
    known = ", ".join(_SUSTAINED_TFLOPS)
    raise UserError(
        f"--hardware: expected {known} or positive TFLOP/s, got {hardware!a}.", code="bad_value"
    )


def cost_table(results: Sequence[Result] = (), requested: dict[str, Any] | None = None) -> Table:
    """Returns Table 2 with the results of translation but for dev sets, and a requested row."""
    rows = [_paper_row(model, results) for model in _PAPER]
    for name, (hours, step_seconds) in _TRAININGS.items():
        rows += [cost_row(name, hours=hours), cost_row(name, step_seconds=step_seconds)]
    shown = [each for each in results if each.undisturbed_split != "dev" and not each.is_parsing]
    rows += [row for row in (*map(_measured, shown), requested) if row]
    title = "Table 2: BLEU on newstest2014 and training cost in floating point operations"
    return Table(title, _COLUMNS, rows, _NOTES, shown)


def _paper_row(model: str, results: Sequence[Result]) -> dict[str, Any]:
    ende_set, enfr_set, averaged = _OURS.get(model, (None, None, None))
    ende = newest_result(results, ende_set, "test", "translate_ende", averaged=averaged)
    enfr = newest_result(results, enfr_set, "test", "translate_enfr", averaged=averaged)
    figures = "bleu_ende", "bleu_enfr", "flops_ende", "flops_enfr"
    return {
        "model": model,
        "set": ende_set,
        **dict(zip(figures, _PAPER[model], strict=True)),
        "our_bleu_ende": ende and ende.bleu,
        "our_bleu_enfr": enfr and enfr.bleu,
    }


def _measured(result: Result) -> dict[str, Any] | None:
    """Returns the cost of a result that was trained on GPUs that the paper names, else None."""
    # One kind of GPU alone, by its marketing name, such as "8 x Tesla P100-SXM2-16GB".
    names = "|".join(_SUSTAINED_TFLOPS)
    match = re.fullmatch(rf"(\d{{1,6}}) x [^+,]*?\b({names})\b[^+,]*", result.hardware)
    if not match or not 0 < (result.seconds or 0) < _MOST_SECONDS:
        return None
    row = cost_row(result.set, int(match[1]), match[2], hours=result.seconds / 3600)
    return {**row, "model": f"{result.set} ({result.problem})"}
