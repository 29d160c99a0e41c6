"""The export formats of this wing; their modules are imported on use."""

import importlib
from pathlib import Path
from typing import ClassVar

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translator import Translator
from t2t_keras.hyperparameters import ModelConfig
from t2t_keras.interop.engines.ctranslate2 import check_settings
from t2t_keras.serving.formats import ExportFormat


class _Format(ExportFormat):
    """A format whose module has a function `write`."""

    module: ClassVar[str]

    def write(self, translator: Translator, folder: Path, dtype: str) -> None:
        """See `ExportFormat`."""
        importlib.import_module(self.module).write(translator, folder, dtype)


class CTranslate2(_Format):
    """CTranslate2, a fast engine for CPUs and GPUs."""

    module = "t2t_keras.interop.exporters.ctranslate2"
    extra = "ctranslate2"
    dtypes = ("float32", "bfloat16", "float16", "int8", "int8_float32", "int8_bfloat16")

    def check_model(self, config: ModelConfig) -> None:
        """See `ExportFormat`."""
        from t2t_keras.interop.exporters.ctranslate2 import check_model_config

        check_model_config(config)

    def check_decoding(self, config: DecodeConfig) -> None:
        """See `ExportFormat`."""
        check_settings(config)


class KerasHub(_Format):
    """A preset of KerasHub."""

    module = "t2t_keras.interop.keras_hub"
    extra = "keras-hub"
    dtypes = ("float32", "bfloat16", "int8")


class LiteRT(_Format):
    """LiteRT, for phones and browsers: greedy search."""

    module = "t2t_keras.interop.exporters.litert"
    extra = "litert"
    dtypes = ("float32", "float16", "int8")


class Onnx(_Format):
    """ONNX: greedy search."""

    module = "t2t_keras.interop.exporters.onnx"
    extra = "onnx"
    dtypes = ("float32", "int8")
