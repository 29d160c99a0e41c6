"""The export formats of this wing; what writes each is imported when it is asked for."""

import importlib
from pathlib import Path
from typing import ClassVar

from t2t_keras.decoding.translator import Translator
from t2t_keras.serving.formats import ExportFormat


class _Format(ExportFormat):
    """A format that a module of this package writes."""

    module: ClassVar[str]

    def write(self, translator: Translator, folder: Path, dtype: str) -> None:
        """See `ExportFormat`."""
        module = importlib.import_module(f"t2t_keras.interop.exporters.{self.module}")
        module.write(translator, folder, dtype)


class CTranslate2(_Format):
    """CTranslate2, a fast engine for CPUs and GPUs."""

    module = "ctranslate2"
    install = "t2t-keras[ctranslate2]"
    dtypes = ("float32", "bfloat16", "float16", "int8", "int8_float32", "int8_bfloat16")


class KerasHub(_Format):
    """A preset of KerasHub."""

    module = "keras_hub"
    install = "t2t-keras[keras-hub]"
    dtypes = ("float32", "bfloat16", "int8")


class LiteRT(_Format):
    """LiteRT, for phones and browsers: greedy search."""

    module = "litert"
    install = "t2t-keras[litert]"
    dtypes = ("float32", "float16", "int8")


class Onnx(_Format):
    """ONNX: greedy search."""

    module = "onnx"
    install = "t2t-keras[onnx]"
    dtypes = ("float32", "int8")
