"""Placeholders of training text become symbols, which translations carry over."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from t2t_keras.data.problem import Pair, PairTransform
from t2t_keras.workbench.placeholders.finding import SYMBOLS
from t2t_keras.workbench.placeholders.symbols import shield_pair


class Placeholders(PairTransform):
    """Placeholders that both sides have, as %s, {name} and addresses, become symbols."""

    decoding: ClassVar[Mapping[str, Any]] = {"check_placeholders": True}
    raw_output = (
        "Sentences and translations have symbols for placeholders such as %s and {name}. With "
        "`found = t2t_keras.workbench.placeholders.symbols.shield(line, symbols=True)`, the "
        "sentence is `found.text`, and `found.restore(translation)` is what users see; "
        "`t2t_keras.workbench.placeholders.missing(line, translation)` tells what is lost."
    )

    def symbols(self) -> Sequence[str]:
        """See `PairTransform`."""
        return SYMBOLS

    def prepare(self, source: str, target: str) -> Pair:
        """See `PairTransform`."""
        return shield_pair(source, target)
