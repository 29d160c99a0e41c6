"""The Transformer of "Attention Is All You Need" in TensorFlow and Keras 3.

    import t2t_keras as t2t

    t2t.generate_data("translate_ende_toy", "data")
    result = t2t.train("translate_ende_toy", "auto", "data", "runs/toy")
    t2t.Translator.from_run("runs/toy").translate(["The dog sleeps."])
    model, tokenizer = t2t.load_model("runs/toy")

Importing the package is cheap: each name loads what it needs when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from t2t_keras._version import __version__
from t2t_keras.environment import prepare_tensorflow

__all__ = [
    "Adam",
    "HParams",
    "Problem",
    "SmoothedCrossEntropy",
    "TransformerSchedule",
    "Translator",
    "UserError",
    "__version__",
    "average_checkpoints",
    "bleu",
    "confidences",
    "export",
    "generate_data",
    "hparams",
    "import_user_directory",
    "load_export",
    "load_model",
    "problem",
    "register_activation",
    "register_augmentation",
    "register_export_format",
    "register_feed_forward",
    "register_filter",
    "register_hparams",
    "register_line_stage",
    "register_loss",
    "register_metric",
    "register_model",
    "register_optimizer",
    "register_pair_transform",
    "register_position_encoding",
    "register_problem",
    "register_schedule",
    "setting",
    "train",
]
_LAZY_IMPORTS = {
    "problem": ("t2t_keras.data.problem", "make_problem"),
    "hparams": ("t2t_keras.hyperparameters", "hparams"),
    "HParams": ("t2t_keras.hyperparameters", "HParams"),
    "Problem": ("t2t_keras.data.problem", "Problem"),
    "setting": ("t2t_keras.settings", "setting"),
    **{n: ("t2t_keras.registry", n) for n in __all__ if n.startswith("register_")},
    "import_user_directory": ("t2t_keras.registry", "import_user_directory"),
    "generate_data": ("t2t_keras.data.generate", "generate"),
    "train": ("t2t_keras.experiment", "train"),
    "load_model": ("t2t_keras.training.checkpoints", "load_model"),
    "SmoothedCrossEntropy": ("t2t_keras.training.optimizer", "SmoothedCrossEntropy"),
    "TransformerSchedule": ("t2t_keras.training.optimizer", "TransformerSchedule"),
    "Adam": ("t2t_keras.training.optimizer", "Adam"),
    "average_checkpoints": ("t2t_keras.training.averaging", "average_run"),
    "Translator": ("t2t_keras.decoding.translator", "Translator"),
    "confidences": ("t2t_keras.decoding.confidence", "confidences"),
    "export": ("t2t_keras.serving.export", "export"),
    "load_export": ("t2t_keras.serving.load", "load_export"),
    "bleu": ("t2t_keras.metrics", "bleu"),
    "UserError": ("t2t_keras.errors", "UserError"),
}

# The names in `_LAZY_IMPORTS`, for type checkers and editors.
if TYPE_CHECKING:
    from t2t_keras.data.generate import generate as generate_data
    from t2t_keras.data.problem import Problem
    from t2t_keras.data.problem import make_problem as problem
    from t2t_keras.decoding.confidence import confidences
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.errors import UserError
    from t2t_keras.experiment import train
    from t2t_keras.hyperparameters import HParams, hparams
    from t2t_keras.metrics import bleu
    from t2t_keras.registry import (
        import_user_directory,
        register_activation,
        register_augmentation,
        register_export_format,
        register_feed_forward,
        register_filter,
        register_hparams,
        register_line_stage,
        register_loss,
        register_metric,
        register_model,
        register_optimizer,
        register_pair_transform,
        register_position_encoding,
        register_problem,
        register_schedule,
    )
    from t2t_keras.serving.export import export
    from t2t_keras.serving.load import load_export
    from t2t_keras.settings import setting
    from t2t_keras.training.averaging import average_run as average_checkpoints
    from t2t_keras.training.checkpoints import load_model
    from t2t_keras.training.optimizer import Adam, SmoothedCrossEntropy, TransformerSchedule
else:

    def __getattr__(name: str) -> Any:
        if name not in _LAZY_IMPORTS:
            from t2t_keras.errors import suggest

            message = f"module '{__name__}' has no attribute '{name}'.{suggest(name, __all__)}"
            # With obj=None, Python's traceback adds no second suggestion.
            raise AttributeError(message, name=name, obj=None)
        prepare_tensorflow()
        module, attribute = _LAZY_IMPORTS[name]
        return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
