"""The registered hyperparameter sets; called, `t2t_keras.hparams("name")`, the one of that name."""

import sys
import types
from collections.abc import Mapping
from typing import Any

from t2t_keras import hyperparameters
from t2t_keras.hyperparameters import HParams


class _CallableModule(types.ModuleType):
    """Python stores a subpackage in its package: in the place of the function of that name."""

    def __call__(
        self, name: str, overrides: str | Mapping[str, Any] = "", **changes: Any
    ) -> HParams:
        """See `t2t_keras.hyperparameters.hparams`."""
        return hyperparameters.hparams(name, overrides, **changes)


sys.modules[__name__].__class__ = _CallableModule
