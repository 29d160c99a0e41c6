"""Table 4: English constituency parsing."""

from collections.abc import Sequence

from t2t_keras import registry
from t2t_keras.evaluation.results import Result
from t2t_keras.tables.comparable import newest_result
from t2t_keras.tables.rendering import Table
from t2t_keras.training.memory.estimate import count_weights

_TRANSFORMER = "Transformer (4 layers)"
_PAPER = (
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
# By training: our set, its problems, and the size of the vocabulary (section 6.3).
_OURS = {
    "WSJ only": ("transformer_parsing_base", ("parsing_wsj", "wsj_parsing"), 16_000),
    "semi-supervised": ("transformer_parsing_big", ("parsing_wsj_semi",), 32_000),
}
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
_NOTES = """
The paper chose dropouts and learning rate on section 22 without stating them; the dropouts of our
sets are tensor2tensor's, the learning rate is that of section 5.3. Our F1 leaves no sentence out:
which words are punctuation is taken from the references, where evalb takes it from each tree's own
tags, and leaves out the sentences in which they differ.
"""


def parsing_table(results: Sequence[Result] = ()) -> Table:
    """Returns Table 4; the results with an F1 are shown, and the comparable beside the paper's."""
    shown = [result for result in results if result.f1 is not None]
    rows = []
    for parser, training, f1 in _PAPER:
        row = {"parser": parser, "training": training, "paper_f1": f1, "set": None}
        if parser == _TRANSFORMER:
            name, problems, vocab_size = _OURS[training]
            hparams = registry.hparams(name)
            alike = [result for result in shown if result.problem in problems]
            ours = newest_result(alike, name, "test", score="f1")
            row |= {
                "set": name,
                "our_f1": ours and ours.f1,
                "changed": registry.changed_hparams(hparams),
                "vocab_size": vocab_size,
                "weights": count_weights(hparams, vocab_size),
            }
        rows.append(row)
    title = "Table 4: F1 of parsers on section 23 of the Wall Street Journal"
    return Table(title, _COLUMNS, rows, _NOTES, shown)
