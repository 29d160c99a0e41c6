"""Table 2: BLEU and training cost in floating point operations.

The paper's estimate (section 6.2): seconds of training x GPUs x what a GPU sustains.
"""

import math
import re
from collections.abc import Sequence

from t2t_keras import registry
from t2t_keras.errors import UserError
from t2t_keras.tables.comparable import newest_result
from t2t_keras.tables.paper import (
    GPUS,
    HARDWARE,
    HOURS,
    STEP_SECONDS,
    SUSTAINED_TFLOPS,
    TABLE_2,
    TranslationModel,
)
from t2t_keras.tables.rendering import Table
from t2t_keras.tables.results import Result

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
# Section 6.1: for EN-FR the big model has less dropout.
_ENFR_SETS = {"transformer_big": "transformer_big_enfr"}
_NOTE = (
    "FLOPs = seconds x GPUs x what a GPU sustains in single precision ("
    + ", ".join(f"{name} {tflops}" for name, tflops in SUSTAINED_TFLOPS.items())
    + " TFLOP/s). The paper's own come from its hours; its step times give less for the base model."
)
_OURS = (
    "Ours is the newest score of an unchanged set on the full newstest2014 by one model, the mean "
    "of as many checkpoints as the paper's (base 5, big 20), with beam 4 and alpha 0.6. The "
    "paper's BLEU is of text tokenised and split at hyphens, which is often higher: compare with "
    "it what the results below call compound_split."
)


def training_flops(seconds: float, gpus: int, tflops: float) -> float:
    """Returns the floating point operations of a training.

    Args:
      seconds: how long it took.
      gpus: on how many GPUs.
      tflops: what one of them sustains, in 10^12 operations a second.
    """
    return seconds * gpus * tflops * 1e12


def sustained_tflops(hardware: str) -> float:
    """Returns what a GPU sustains, given its name in the paper or the number itself.

    Raises:
      UserError: it is neither.
    """
    try:
        tflops = SUSTAINED_TFLOPS.get(hardware.upper()) or float(hardware)
    except ValueError:
        tflops = 0.0
    if not 0 < tflops < float("inf"):
        known = ", ".join(f"{name} ({each})" for name, each in SUSTAINED_TFLOPS.items())
        raise UserError(
            f"--hardware={hardware}: the paper knows {known}. For others give the TFLOP/s that one "
            f"sustains in training, as --hardware=9.5."
        )
    return tflops


def cost_row(
    hparams_set: str = "",
    gpus: int = GPUS,
    hardware: str = HARDWARE,
    hours: float = 0.0,
    step_seconds: float = 0.0,
) -> dict[str, object]:
    """Returns a row of Table 2 that says what a training costs.

    Args:
      hparams_set: a hyperparameter set; with hours it only gives the row its name.
      gpus: how many GPUs.
      hardware: a GPU that the paper names, or the TFLOP/s that one sustains.
      hours: how long training takes; or
      step_seconds: how long a step takes, as many times as the set has train_steps.

    Raises:
      UserError: no such set or hardware; not exactly one of hours and step_seconds, or one that is
        no time.
    """
    if bool(hours) == bool(step_seconds):
        raise UserError("Give either --hours or --step_seconds of a training, not both.")
    if not 0 < hours + step_seconds < math.inf:
        raise UserError(
            f"A training cannot take {hours or step_seconds} hours or seconds a step: give --hours "
            f"or --step_seconds a positive number."
        )
    if step_seconds and not hparams_set:
        raise UserError(
            "--step_seconds needs --hparams_set, whose train_steps it is multiplied by."
        )
    if step_seconds:
        steps = registry.hparams(hparams_set).train_steps
        seconds, time = step_seconds * steps, f"{steps:,} steps of {step_seconds:g} s"
    else:
        seconds, time = hours * 3600, _duration(hours)
    tflops = sustained_tflops(hardware)
    named = hardware.upper() in SUSTAINED_TFLOPS
    return {
        "model": hparams_set,
        "set": hparams_set or None,
        "time": time,
        "seconds": seconds,
        "gpus": gpus,
        "tflops": tflops,
        "hardware": f"{gpus} x {hardware.upper() if named else f'{tflops:g} TFLOP/s'}",
        "flops": training_flops(seconds, gpus, tflops),
    }


def cost_table(results: Sequence[Result] = (), asked: dict[str, object] | None = None) -> Table:
    """Returns Table 2.

    Args:
      results: all results; shown are those of translation, not of a dev set.
      asked: a further row, by `cost_row`.
    """
    rows = [_paper_row(model, results) for model in TABLE_2]
    for name in HOURS:
        rows.append(cost_row(name, hours=HOURS[name]))
        rows.append(cost_row(name, step_seconds=STEP_SECONDS[name]))
    shown = [result for result in results if result.split != "dev" and not result.is_parsing]
    rows += [row for row in map(_measured, shown) if row]
    if asked:
        rows.append(asked)
    return Table(
        title="Table 2: BLEU on newstest2014 and training cost in floating point operations",
        columns=_COLUMNS,
        rows=rows,
        notes=[_NOTE, _OURS],
        results=shown,
    )


def _paper_row(model: TranslationModel, results: Sequence[Result]) -> dict[str, object]:
    enfr_set = _ENFR_SETS.get(model.hparams_set, model.hparams_set)
    ende, enfr = (
        newest_result(results, name, "test", problem, averaged=model.averaged)
        for name, problem in (
            (model.hparams_set, "translate_ende"),
            (enfr_set, "translate_enfr"),
        )
    )
    return {
        "model": model.name,
        "set": model.hparams_set,
        "bleu_ende": model.bleu_ende,
        "bleu_enfr": model.bleu_enfr,
        "flops_ende": model.flops_ende,
        "flops_enfr": model.flops_enfr,
        "our_bleu_ende": ende and ende.bleu,
        "our_bleu_enfr": enfr and enfr.bleu,
    }


def _measured(result: Result) -> dict[str, object] | None:
    """Returns the cost of a result that was trained on GPUs that the paper names, else None."""
    # One kind of GPU alone, by its marketing name, such as "8 x Tesla P100-SXM2-16GB".
    names = "|".join(SUSTAINED_TFLOPS)
    match = re.fullmatch(rf"(\d+) x [^+,]*?\b({names})\b[^+,]*", result.hardware)
    if not match or not result.seconds:
        return None
    row = cost_row(result.set, int(match[1]), match[2], hours=result.seconds / 3600)
    return {**row, "model": f"{result.set} ({result.problem})"}


def _duration(hours: float) -> str:
    return f"{hours / 24:g} days" if hours >= 48 else f"{hours:g} hours"
