"""The export formats of this wing; what writes each is imported when it is asked for."""

from pathlib import Path

from t2t_keras.decoding.translator import Translator
from t2t_keras.serving.export.formats import ExportFormat


class CTranslate2(ExportFormat):
    """CTranslate2, a fast engine for CPUs and GPUs."""

    install = "t2t-keras[ctranslate2]"
    dtypes = ("float32", "bfloat16", "float16", "int8", "int8_float32", "int8_bfloat16")

    def write(self, translator: Translator, folder: Path, dtype: str) -> None:
        """See `ExportFormat`."""
        from t2t_keras.interop.exporters.ctranslate2 import write

        write(translator, folder, dtype)


class KerasHub(ExportFormat):
    """A preset of KerasHub."""

    install = "t2t-keras[keras-hub]"
    dtypes = ("float32", "bfloat16", "int8")

    def write(self, translator: Translator, folder: Path, dtype: str) -> None:
        """See `ExportFormat`."""
        from t2t_keras.interop.exporters.keras_hub import write

        write(translator, folder, dtype)


class LiteRT(ExportFormat):
    """LiteRT, for phones and browsers: greedy search."""

    install = "t2t-keras[litert]"
    dtypes = ("float32", "float16", "int8")

    def write(self, translator: Translator, folder: Path, dtype: str) -> None:
        """See `ExportFormat`."""
        from t2t_keras.interop.exporters.litert import write

        write(translator, folder, dtype)


class Onnx(ExportFormat):
    """ONNX: greedy search."""

    install = "t2t-keras[onnx]"
    dtypes = ("float32", "int8")

    def write(self, translator: Translator, folder: Path, dtype: str) -> None:
        """See `ExportFormat`."""
        from t2t_keras.interop.exporters.onnx import write

        write(translator, folder, dtype)
