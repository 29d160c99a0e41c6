"""Table 3: variations of the base model, with the weights that they really have."""

import functools
from collections.abc import Sequence

from t2t_keras import registry
from t2t_keras.evaluation.results import Result
from t2t_keras.hparams.table_3 import PARAMETER_ATTENTION, TABLE_3
from t2t_keras.tables.comparable import newest_result
from t2t_keras.tables.rendering import Table
from t2t_keras.training.memory.estimate import count_weights

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
_NOTES = """
Weights are those of each model with a vocabulary of {vocab_size:,} ids.

Steps, PPL (a word piece), BLEU and params·10⁶ are the paper's; blank = as base. Ours are the newest
of an unchanged set on newstest2013 by one checkpoint as training left it, with beam 4 and alpha
0.6. AOP1 and AOP2 are the attention over parameters of the paper's source.
"""


def weights_table(results: Sequence[Result] = (), vocab_size: int = 37_000) -> Table:
    """Returns Table 3, and below it the two models with attention over parameters.

    Of the results, those of translation on a dev set are shown, as the table's are.
    """
    rows = []
    # Table 3 is "without checkpoint averaging".
    find = functools.partial(newest_result, split="dev", problem="translate_ende", averaged=1)
    for variation in (*TABLE_3, *PARAMETER_ATTENTION):
        name, hparams = variation.hparams_set, registry.hparams(variation.hparams_set)
        scored, alike = find(results, name), results
        if scored:  # A row is of one checkpoint.
            checkpoint = scored.steps, scored.checkpoint
            alike = [each for each in results if (each.steps, each.checkpoint) == checkpoint]
        measured = find(alike, name, score="perplexity")
        ours = scored or measured
        row = {
            "set": name,
            "row": variation.row,
            "changed": registry.changed_hparams(hparams),
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
        rows.append(row)
    title = "Table 3: variations of the base model, EN-DE newstest2013, without averaging"
    shown = [each for each in results if each.undisturbed_split == "dev" and not each.is_parsing]
    return Table(title, _COLUMNS, rows, _NOTES.format(vocab_size=vocab_size), shown)
