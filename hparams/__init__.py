"""The registered hyperparameter sets; `t2t_keras.hparams("name")` returns the set of that name."""

import sys
import types
from collections.abc import Mapping
from typing import Any

from t2t_keras import hyperparameters
from t2t_keras.hyperparameters import HParams


class _CallableModule(types.ModuleType):
    """Makes this subpackage callable, since it hides the package's function of the same name."""

    def __call__(
        self, name: str, overrides: str | Mapping[str, Any] = "", **changes: Any
    ) -> HParams:
        """See `t2t_keras.hyperparameters.hparams`."""
        return hyperparameters.hparams(name, overrides, **changes)


sys.modules[__name__].__class__ = _CallableModule
