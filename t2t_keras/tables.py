"""The paper's Tables 1 to 4 next to this project's own counts and measurements.

The paper estimates the cost of training as seconds x GPUs x a GPU's sustained FLOP/s (section 6.2).
"""

import contextlib
import dataclasses
import functools
import json
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_keras import hyperparameters
from t2t_keras.data.problem import make_problem
from t2t_keras.decoding.config import decode_config
from t2t_keras.errors import UserError
from t2t_keras.evaluation.results import Result
from t2t_keras.hparams.table_3 import PARAMETER_ATTENTION, TABLE_3

_RESULT_COLUMNS = {
    "set": "set",
    "hparams": "changed",
    "problem": "problem",
    "split": "split",
    "text": "text",
    "steps": "steps",
    "averaged": "mean of",
    "target_tokens": "tokens",
    "seconds": "seconds",
    "hardware": "hardware",
    "perplexity": "PPL",
    "bleu": "BLEU",
    "bleu_signature": "signature",
    "conventions": "other conventions",
    "chrf": "chrF",
    "f1": "F1",
    "decode": "decoding",
    "random_seed": "seed",
    "commit": "commit",
    "date": "date",
}


@dataclasses.dataclass(frozen=True)
class Table:
    """One of the paper's tables, with our figures next to it."""

    title: str
    columns: Mapping[str, str]  # Value name -> heading; values without a heading are in JSON only.
    rows: Sequence[Mapping[str, Any]]  # Value name -> value; None or no value = blank cell.
    notes: str = ""  # Paragraphs, with blank lines between them.
    # In JSON, a result is listed under "results" in its set's first row, or in a row of its own.
    results: Sequence[Result] = ()


def render(table: Table, style: str) -> str:
    """Returns a table as "text", as "markdown", or as "json", a list of rows."""
    if style == "json":
        return json.dumps(_rows_with_results(table), indent=2)  # ASCII, also on a terminal
    markdown = style == "markdown"
    title = f"### {table.title}" if markdown else table.title
    notes = table.notes.strip().split("\n\n")
    notes = [textwrap.fill(note, len(note) if markdown else 100) for note in notes if note]
    parts = [title, _grid(table.rows, table.columns, markdown), *notes]
    if table.results:
        rows = [dataclasses.asdict(result) for result in table.results]
        parts += ["#### Results so far" if markdown else "Results so far"]
        parts += [_grid(rows, _RESULT_COLUMNS, markdown)]
    return "\n\n".join(parts)


def _rows_with_results(table: Table) -> list[dict[str, Any]]:
    rows = [dict(row) for row in table.rows]
    for result in table.results:
        row = next((row for row in rows if row.get("set") == result.set), None)
        if row is None:
            # With the keys of the first row, so that programs can read all rows alike.
            row = {**dict.fromkeys(table.rows[0]), "set": result.set}
            rows.append(row)
        row.setdefault("results", []).append(dataclasses.asdict(result))
    return rows


def _grid(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], markdown: bool) -> str:
    """Returns the rows under their headings; columns without any value are left out."""
    # Imported here, since a machine that only trains may not have it.
    from tabulate import tabulate

    filled_columns = {
        name for row in rows for name in columns if row.get(name) not in (None, "", {})
    }
    columns = {name: heading for name, heading in columns.items() if name in filled_columns}
    numbers = {name for row in rows for name in columns if isinstance(row.get(name), int | float)}
    cells = [[_format_cell(row.get(name), markdown) for name in columns] for row in rows]
    return tabulate(
        cells,
        headers=list(columns.values()),
        tablefmt="github" if markdown else "simple",
        # Numbers are formatted here.
        disable_numparse=True,
        colalign=["right" if name in numbers else "left" for name in columns] if rows else None,
    )


def _format_cell(value: Any, markdown: bool) -> str:
    """Returns a value as text: 63,045,632; 25.8; 3.3e18; d_k=16."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_format_part(part)}" for name, part in value.items())
    if isinstance(value, float):
        # Two decimals, or one where the second is 0; costs as powers of ten.
        is_large = abs(value) >= 1e12
        return f"{value:.1e}".replace("e+", "e") if is_large else f"{value:,.2f}".removesuffix("0")
    if isinstance(value, int):
        return f"{value:,}"
    return str(value).replace("|", "\\|") if markdown else str(value)


def _format_part(value: Any) -> str:
    if isinstance(value, Mapping):  # A score under another convention.
        value = value.get("bleu")
    return f"{value:g}" if isinstance(value, float) else str(value)


# Lines of newstest2013, and of the full edition of newstest2014 (section 6.1).
_LINE_COUNTS = {"dev": 3000, "test": 3003}
# Settings that change how something is computed, or where it comes from, but not the result.
_NEUTRAL_HPARAMS = {"microbatch_tokens", "recompute", "compute_dtype"}
_NEUTRAL_SETTINGS = {  # settings of problems and of decoding
    *("text_source", "batch_tokens", "batches_at_once", "lines_at_once"),
    *("xla", "xla_for_one", "return_beams", "write_beam_scores"),
}


def newest_result(
    results: Sequence[Result],
    hparams_set: str | None,
    split: str,
    problem: str = "",
    *,
    score: str = "bleu",
    averaged: int | None = None,
) -> Result | None:
    """Returns the newest result whose `score` can be compared with the paper's.

    Its set and its problem ("" = any) are unchanged. It scores the whole text that the paper
    scored, translated by one model with the problem's own decoding settings. Its weights are the
    mean of `averaged` checkpoints; None = any number. `score` is "bleu", "perplexity" or "f1".
    """
    comparable = (
        result
        for result in reversed(results)
        if (result.set, result.split) == (hparams_set, split)
        and result.problem == (problem or result.problem)
        and getattr(result, score) is not None
        and averaged in (None, result.averaged)
        and not result.hparams.keys() - _NEUTRAL_HPARAMS
        and _scores_papers_text(result)
        # Perplexity is computed on the references, without decoding.
        and (score == "perplexity" or _has_default_decoding(result))
    )
    return next(comparable, None)


def _scores_papers_text(result: Result) -> bool:
    problem = make_problem(result.problem)
    # The text's name shows the edition, and whether lines are missing.
    is_whole = result.text == problem.text_name(result.split, _LINE_COUNTS[result.split])
    return is_whole and _are_equivalent(result.problem_config, problem.config())


def _has_default_decoding(result: Result) -> bool:
    defaults = vars(decode_config(defaults=make_problem(result.problem).decoding))
    # An older result lacks newer settings, which had their defaults.
    settings = {name: value for name, value in result.decode.items() if name in defaults}
    return result.is_of_the_model_alone and _are_equivalent(settings, defaults)


def _are_equivalent(settings: dict, defaults: dict) -> bool:
    return all(defaults.get(name) == settings[name] for name in settings.keys() - _NEUTRAL_SETTINGS)


_TABLE_1_COLUMNS = {
    "layer": "layer",
    "operations_formula": "O(operations)",
    "sequential_formula": "O(sequential)",
    "path_formula": "O(path)",
    "operations": "operations",
    "sequential": "sequential",
    "path": "path",
    "our_multiplications": "our multiplications",
    "our_sequential": "our sequential",
    "our_path": "our path",
}
_TABLE_1_NOTES = """
The paper's columns hold up to a constant factor. Ours follow from the shapes that
MultiHeadAttention computes with for one sentence: the multiplications of scalars in Q K^T and in
weights·V, so twice n²·d; the four projections are not included (in JSON: our_projections).

Restricted self-attention (r = 2·radius + 1) divides the positions into blocks of max(radius, 16),
or of n if that is less. A block attends to itself and the adjacent blocks; positions beyond the
radius are masked. So a position has more than r keys, but their number does not grow with n.

Sequential: 1, as nothing loops over positions. Path: layers until every output depends on every
input; with a radius the ends are (n - 1) / radius layers apart.
"""


def complexity_table(n: int = 64, d: int = 512, k: int = 3, r: int = 9) -> Table:
    """Returns Table 1 for n >= 2 positions of width d; its last two rows are from section 4's text.

    The kernel of a convolution is k >= 2 positions wide. The neighbourhood of a position in
    restricted self-attention is r >= 3 positions wide, and centred on it.
    """
    if r % 2 == 0:
        raise UserError(
            f"--r must be odd, as 2 * self_attention_radius + 1 is, got {r}.", code="bad_value"
        )
    separable = k * n * d + n * d**2
    # Formulas up to a constant factor, then their values, for the operations of a layer, sequential
    # operations, and the maximum path length between an input and an output, in layers.
    layers = (
        ("self-attention", "n²·d", "1", "1", n**2 * d, 1, 1),
        ("recurrent", "n·d²", "n", "n", n * d**2, n, n),
        ("convolutional (dilated)", "k·n·d²", "1", "log_k(n)", k * n * d**2, 1, math.log(n, k)),
        ("self-attention (restricted)", "r·n·d", "1", "n/r", r * n * d, 1, n / r),
        ("convolutional (contiguous)", "k·n·d²", "1", "n/k", k * n * d**2, 1, n / k),
        ("separable convolutional", "k·n·d + n·d²", "1", "n/k", separable, 1, n / k),
    )
    rows = [dict(zip(_TABLE_1_COLUMNS, layer, strict=False)) for layer in layers]
    rows[0] |= attention_cost(n, d)
    rows[3] |= attention_cost(n, d, radius=(r - 1) // 2)
    title = f"Table 1: complexity of a layer for n={n}, d={d}, k={k}, r={r}"
    return Table(title, _TABLE_1_COLUMNS, rows, _TABLE_1_NOTES)


def attention_cost(n: int, d: int, radius: int = 0) -> dict[str, int]:
    """Returns the cost of our self-attention for a sentence of n positions of width d.

    A position attends to others up to `radius` positions away; 0 = to all.
    """
    from t2t_keras.layers.attention import block_length

    block = block_length(radius, n) if radius else n
    queries, keys = math.ceil(n / block) * block, 3 * block if radius else n
    return {
        "our_multiplications": 2 * queries * keys * d,
        "our_projections": 4 * n * d * d,
        "our_sequential": 1,
        "our_path": math.ceil((n - 1) / radius) if radius else 1,
    }


# BLEU of EN-DE and EN-FR, FLOPs of EN-DE and EN-FR; None = not in the paper.
_TABLE_2_PAPER = {
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
# Our sets for EN-DE and EN-FR, and the number of averaged checkpoints (section 6.1).
_TABLE_2_OURS = {
    "Transformer base": ("transformer_base", "transformer_base", 5),
    "Transformer big": ("transformer_big", "transformer_big_enfr", 20),
}
# Section 5.2: hours of training on 8 P100, and seconds per step.
_TRAINING_TIMES = {"transformer_base": (12.0, 0.4), "transformer_big": (3.5 * 24, 1.0)}
_MAX_SECONDS = 1e12  # No training took 30,000 years.
# Sustained single-precision TFLOP/s of a GPU (section 6.2, footnote).
_SUSTAINED_TFLOPS = {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}

_TABLE_2_COLUMNS = {
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
_TABLE_2_NOTES = """
FLOPs = seconds x GPUs x a GPU's sustained single-precision FLOP/s (in TFLOP/s: K80 2.8, K40 3.7,
M40 6.0, P100 9.5). The paper takes its hours; its step times give less for the base model.

Our score is the newest of an unchanged set on the full newstest2014. It is from one model that
averages as many checkpoints as the paper's (base 5, big 20), with beam 4 and alpha 0.6. The paper
tokenises text and splits it at hyphens, which often raises BLEU: compare its BLEU with
compound_split in the results below.
"""


def cost_row(
    hparams_set: str = "",
    gpus: int = 8,
    hardware: str = "P100",
    hours: float = 0.0,
    step_seconds: float = 0.0,
) -> dict[str, Any]:
    """Returns a row of Table 2: the cost of training, from its hours or its seconds per step.

    The number of steps is the set's `train_steps`; with `hours`, the set only names the row. The
    hardware is a GPU that the paper names, or a GPU's sustained TFLOP/s.
    """
    if bool(hours) == bool(step_seconds) or not 0 < hours + step_seconds < math.inf:
        raise UserError(
            f"Expected a positive number for either --hours or --step_seconds, got {hours:g} and "
            f"{step_seconds:g}.",
            code="conflicting_settings",
        )
    seconds, time = hours * 3600, f"{hours / 24:g} days" if hours >= 48 else f"{hours:g} hours"
    if step_seconds:
        if not hparams_set:
            raise UserError(
                "--step_seconds needs --hparams_set, which has the number of steps.",
                code="conflicting_settings",
            )
        steps = hyperparameters.hparams(hparams_set).train_steps
        seconds, time = step_seconds * steps, f"{steps:,} steps of {step_seconds:g} s"
    gpu, tflops = _find_gpu(hardware)
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


def _find_gpu(hardware: str) -> tuple[str, float]:
    """Returns the name and sustained TFLOP/s of a GPU, from a name in the paper or the TFLOP/s."""
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
    """Returns Table 2 with a requested row and all translation results except those of dev sets."""
    rows = [_paper_row(model, results) for model in _TABLE_2_PAPER]
    for name, (hours, step_seconds) in _TRAINING_TIMES.items():
        rows += [cost_row(name, hours=hours), cost_row(name, step_seconds=step_seconds)]
    shown_results = [
        result for result in results if result.undisturbed_split != "dev" and not result.is_parsing
    ]
    rows += [row for row in (*map(_measured_cost_row, shown_results), requested) if row]
    title = "Table 2: BLEU on newstest2014 and training cost in floating point operations"
    return Table(title, _TABLE_2_COLUMNS, rows, _TABLE_2_NOTES, shown_results)


def _paper_row(model: str, results: Sequence[Result]) -> dict[str, Any]:
    ende_set, enfr_set, averaged = _TABLE_2_OURS.get(model, (None, None, None))
    ende_result = newest_result(results, ende_set, "test", "translate_ende", averaged=averaged)
    enfr_result = newest_result(results, enfr_set, "test", "translate_enfr", averaged=averaged)
    columns = "bleu_ende", "bleu_enfr", "flops_ende", "flops_enfr"
    return {
        "model": model,
        "set": ende_set,
        **dict(zip(columns, _TABLE_2_PAPER[model], strict=True)),
        "our_bleu_ende": ende_result and ende_result.bleu,
        "our_bleu_enfr": enfr_result and enfr_result.bleu,
    }


def _measured_cost_row(result: Result) -> dict[str, Any] | None:
    """Returns the cost row of a result from GPUs that the paper names; None for other hardware."""
    # One kind of GPU alone, by its marketing name, such as "8 x Tesla P100-SXM2-16GB".
    names = "|".join(_SUSTAINED_TFLOPS)
    match = re.fullmatch(rf"(\d{{1,6}}) x [^+,]*?\b({names})\b[^+,]*", result.hardware)
    seconds = result.seconds or 0
    if not match or not 0 < seconds < _MAX_SECONDS:
        return None
    row = cost_row(result.set, int(match[1]), match[2], hours=seconds / 3600)
    return {**row, "model": f"{result.set} ({result.problem})"}


_TABLE_3_COLUMNS = {
    "row": "row",
    "set": "set",
    "changed": "differs from base",
    "paper_steps": "steps",
    "paper_perplexity": "PPL",
    "our_perplexity": "our PPL",
    "paper_bleu": "BLEU",
    "our_bleu": "our sacreBLEU",
    "our_steps": "at step",
    "paper_millions": "params·10⁶",
    "weights": "our weights",
}
_TABLE_3_NOTES = """
Weights are those of each model with a vocabulary of {vocab_size:,} ids.

Steps, PPL (per word piece), BLEU and params·10⁶ are the paper's; blank = as base. Ours are the
newest of an unchanged set on newstest2013, by one checkpoint without averaging, with beam 4 and
alpha 0.6. AOP1 and AOP2 are the attention over parameters of the paper's source.
"""


def weights_table(results: Sequence[Result] = (), vocab_size: int = 37_000) -> Table:
    """Returns Table 3 and, as its last rows, the two models with attention over parameters.

    Below the table are all translation results on dev sets, since the paper's are on a dev set.
    """
    rows = []
    # Table 3 is "without checkpoint averaging".
    find = functools.partial(newest_result, split="dev", problem="translate_ende", averaged=1)
    for variation in (*TABLE_3, *PARAMETER_ATTENTION):
        name, hparams = variation.hparams_set, hyperparameters.hparams(variation.hparams_set)
        bleu_result, candidates = find(results, name), results
        if bleu_result:  # Both figures of a row are of one checkpoint.
            checkpoint = bleu_result.steps, bleu_result.checkpoint
            candidates = [
                result for result in results if (result.steps, result.checkpoint) == checkpoint
            ]
        perplexity_result = find(candidates, name, score="perplexity")
        reported = bleu_result or perplexity_result
        row = {
            "set": name,
            "row": variation.row,
            "changed": hyperparameters.changed_hparams(hparams),
            "paper_steps": variation.steps,
            "paper_perplexity": variation.perplexity,
            "paper_bleu": variation.bleu,
            "paper_millions": variation.million_weights,
            "our_perplexity": perplexity_result and perplexity_result.perplexity,
            "our_bleu": bleu_result and bleu_result.bleu,
            "our_steps": reported and reported.steps,
            "vocab_size": vocab_size,
            "weights": hparams.count_weights(vocab_size),
        }
        rows.append(row)
    title = "Table 3: variations of the base model, EN-DE newstest2013, without averaging"
    shown_results = [
        result for result in results if result.undisturbed_split == "dev" and not result.is_parsing
    ]
    return Table(
        title, _TABLE_3_COLUMNS, rows, _TABLE_3_NOTES.format(vocab_size=vocab_size), shown_results
    )


_TRANSFORMER = "Transformer (4 layers)"
_TABLE_4_PAPER = (
    ("Vinyals & Kaiser et al. (2014)", "WSJ only", 88.3),
    ("Petrov et al. (2006)", "WSJ only", 90.4),
    ("Zhu et al. (2013)", "WSJ only", 90.4),
    ("Dyer et al. (2016)", "WSJ only", 91.7),
    (_TRANSFORMER, "WSJ only", 91.3),
    ("Zhu et al. (2013)", "semi-supervised", 91.3),
    ("Huang & Harper (2009)", "semi-supervised", 91.3),
    ("McClosky et al. (2006)", "semi-supervised", 92.1),
    ("Vinyals & Kaiser et al. (2014)", "semi-supervised", 92.1),
    (_TRANSFORMER, "semi-supervised", 92.7),
    ("Luong et al. (2015)", "multi-task", 93.0),
    ("Dyer et al. (2016)", "generative", 93.3),
)
# Training data -> our set, its problems, and the size of the vocabulary (section 6.3).
_TABLE_4_OURS = {
    "WSJ only": ("transformer_parsing_base", ("parsing_wsj", "wsj_parsing"), 16_000),
    "semi-supervised": ("transformer_parsing_big", ("parsing_wsj_semi",), 32_000),
}
_TABLE_4_COLUMNS = {
    "parser": "parser",
    "training": "training",
    "paper_f1": "WSJ 23 F1",
    "our_f1": "our F1",
    "set": "set",
    "changed": "differs from base",
    "vocab_size": "vocabulary",
    "weights": "our weights",
}
_TABLE_4_NOTES = """
The paper chose dropouts and learning rate on section 22 without stating them; the dropouts of our
sets are tensor2tensor's, the learning rate is that of section 5.3. Our F1 leaves no sentence out:
punctuation is taken from the references. evalb takes it from each tree's own tags, and leaves out
sentences in which the two trees' punctuation differs.
"""


def parsing_table(results: Sequence[Result] = ()) -> Table:
    """Returns Table 4 with all results that have an F1; the paper's are next to comparable ones."""
    shown_results = [result for result in results if result.f1 is not None]

    rows = []
    for parser, training, f1 in _TABLE_4_PAPER:
        row = {"parser": parser, "training": training, "paper_f1": f1, "set": None}
        if parser == _TRANSFORMER:
            name, problems, vocab_size = _TABLE_4_OURS[training]
            hparams = hyperparameters.hparams(name)
            problem_results = [result for result in shown_results if result.problem in problems]
            newest = newest_result(problem_results, name, "test", score="f1")
            row |= {
                "set": name,
                "our_f1": newest and newest.f1,
                "changed": hyperparameters.changed_hparams(hparams),
                "vocab_size": vocab_size,
                "weights": hparams.count_weights(vocab_size),
            }
        rows.append(row)
    title = "Table 4: F1 of parsers on section 23 of the Wall Street Journal"
    return Table(title, _TABLE_4_COLUMNS, rows, _TABLE_4_NOTES, shown_results)
