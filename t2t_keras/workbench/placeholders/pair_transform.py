"""Replaces placeholders of training text by symbols, which models learn to copy."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from t2t_keras.data.problem import Pair, PairTransform
from t2t_keras.workbench.placeholders.finding import SYMBOLS
from t2t_keras.workbench.placeholders.symbols import shield_pair


class Placeholders(PairTransform):
    """Replaces placeholders that both sides have, such as %s, {name} and addresses, by symbols."""

    decoding: ClassVar[Mapping[str, Any]] = {"check_placeholders": True}
    raw_output = (
        "Sentences and translations have symbols for placeholders such as %s and {name}. With "
        "`shielded = t2t_keras.workbench.placeholders.symbols.shield(line, symbols=True)`, the "
        "sentence is `shielded.text`, and `shielded.restore(translation)` is the text for users; "
        "`t2t_keras.workbench.placeholders.missing(line, translation)` lists wrong placeholders."
    )

    def symbols(self) -> Sequence[str]:
        """See `PairTransform`."""
        return SYMBOLS

    def prepare(self, source: str, target: str) -> Pair:
        """See `PairTransform`."""
        return shield_pair(source, target)
