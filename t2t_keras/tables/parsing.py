"""Table 4: English constituency parsing."""

from collections.abc import Sequence

from t2t_keras import registry
from t2t_keras.tables.comparable import newest_result
from t2t_keras.tables.paper import TABLE_4
from t2t_keras.tables.rendering import Table
from t2t_keras.tables.results import Result
from t2t_keras.tables.weights import changed_hparams, count_weights

_COLUMNS = {
    "parser": "parser",
    "training": "training",
    "paper_f1": "WSJ 23 F1",
    "our_f1": "our F1",
    "set": "set",
    "changed": "differs from base",
    "vocab_size": "vocabulary",
    "weights": "our weights",
}
_NOTE = (
    "The paper chose dropouts and learning rate on section 22 without stating them; the dropouts "
    "of our sets are tensor2tensor's, the learning rate is that of section 5.3. Our F1 leaves no "
    "sentence out: which words are punctuation is taken from the references, where evalb takes it "
    "from each tree's own tags, and leaves out the sentences in which they differ."
)


def parsing_table(results: Sequence[Result] = ()) -> Table:
    """Returns Table 4.

    Args:
      results: all results; shown are those with an F1, and beside the paper's those of its training
        and text.
    """
    shown = [result for result in results if result.f1 is not None]
    rows = []
    for parser in TABLE_4:
        row = {
            "parser": parser.name,
            "training": parser.training,
            "paper_f1": parser.f1,
            "set": parser.hparams_set,
        }
        if parser.hparams_set:
            hparams = registry.hparams(parser.hparams_set)
            alike = [result for result in shown if result.problem in parser.problems]
            ours = newest_result(alike, parser.hparams_set, "test", score="f1")
            row["our_f1"] = ours and ours.f1
            row["changed"] = changed_hparams(hparams)
            row["vocab_size"] = parser.vocab_size
            row["weights"] = count_weights(hparams, parser.vocab_size)
        rows.append(row)
    return Table(
        title="Table 4: F1 of parsers on section 23 of the Wall Street Journal",
        columns=_COLUMNS,
        rows=rows,
        notes=[_NOTE],
        results=shown,
    )
