"""Table 3: variations of the base model, with the weights that they really have."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

from t2t_keras import registry
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.tables.comparable import newest_result
from t2t_keras.tables.paper import PARAMETER_ATTENTION, TABLE_3
from t2t_keras.tables.rendering import Table
from t2t_keras.tables.results import Result

# Section 5.1: "about 37000".
VOCAB_SIZE = 37_000

_COLUMNS = {
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
_NOTE = (
    "Steps, PPL (a word piece), BLEU and params·10⁶ are the paper's; blank = as base. Ours are "
    "the newest of an unchanged set on newstest2013 by one checkpoint as training left it, with "
    "beam 4 and alpha 0.6. AOP1 and AOP2 are the attention over parameters of the paper's source."
)


def count_weights(hparams: HParams, vocab_size: int, model: str = "transformer") -> int:
    """Returns how many trained numbers a model has, counted in the model itself.

    Args:
      hparams: its hyperparameters.
      vocab_size: ids of the shared vocabulary.
      model: its registered name.
    """
    import tensorflow as tf

    # Keras knows the shapes of its weights. In the place of the values, which would take memory and
    # most of the time, stands a specification.
    with tf.variable_creator_scope(lambda make, **arguments: tf.TensorSpec(shape=None)):
        weights = registry.model(model).from_hparams(hparams, vocab_size).trainable_variables
    return sum(math.prod(weight.shape) for weight in weights)


def changed_hparams(hparams: HParams, hparams_set: str = "transformer_base") -> dict[str, Any]:
    """Returns the hyperparameters that differ from a set's, by name.

    Args:
      hparams: the hyperparameters.
      hparams_set: what they are compared with; where there is no such set, the base model is.
    """
    try:
        named = registry.hparams(hparams_set)
    except UserError:  # A user's own set, whose directory was not imported.
        named = HParams()
    values = dataclasses.asdict(hparams)
    return {name: value for name, value in values.items() if value != getattr(named, name)}


def weights_table(results: Sequence[Result] = (), vocab_size: int = VOCAB_SIZE) -> Table:
    """Returns Table 3, and below it the two models with attention over parameters.

    Args:
      results: all results; shown are those of translation on a dev set, as the table's are.
      vocab_size: ids of the shared vocabulary that the weights are counted with.
    """
    shown = [result for result in results if result.split == "dev" and not result.is_parsing]
    rows = []
    for variation in (*TABLE_3, *PARAMETER_ATTENTION):
        hparams = registry.hparams(variation.hparams_set)
        scored, measured = _measured(results, variation.hparams_set)
        ours = scored or measured
        rows.append(
            {
                "set": variation.hparams_set,
                "row": variation.row,
                "changed": changed_hparams(hparams),
                "paper_steps": variation.steps,
                "paper_perplexity": variation.perplexity,
                "paper_bleu": variation.bleu,
                "paper_millions": variation.millions,
                "our_perplexity": measured and measured.perplexity,
                "our_bleu": scored and scored.bleu,
                "our_steps": ours and ours.steps,
                "vocab_size": vocab_size,
                "weights": count_weights(hparams, vocab_size),
            }
        )
    return Table(
        title="Table 3: variations of the base model, EN-DE newstest2013, without averaging",
        columns=_COLUMNS,
        rows=rows,
        notes=[
            f"Weights are counted in each model with a vocabulary of {vocab_size:,} ids.",
            _NOTE,
        ],
        results=shown,
    )


def _measured(results: Sequence[Result], hparams_set: str) -> tuple[Result | None, Result | None]:
    """Returns the results with the BLEU and the perplexity of a row, where they are known."""
    find = functools.partial(
        newest_result,
        hparams_set=hparams_set,
        split="dev",
        problem="translate_ende",
        # Table 3: "without checkpoint averaging".
        averaged=1,
    )
    scored = find(results)
    # A row is of one checkpoint.
    alike = [
        result
        for result in results
        if scored is None or (result.steps, result.checkpoint) == (scored.steps, scored.checkpoint)
    ]
    return scored, find(alike, score="perplexity")
