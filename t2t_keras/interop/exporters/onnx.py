"""An export as one file of ONNX: greedy decoding, ids to ids."""

import logging
import tempfile
from pathlib import Path

import onnx
from onnxruntime import quantization

from t2t_keras.decoding.translator import Translator
from t2t_keras.interop.exporters.greedy import write_files_beside
from t2t_keras.interop.exporters.onnx_graph import onnx_model

FILE = "model.onnx"


def write(translator: Translator, folder: Path, dtype: str) -> None:
    """Writes the model with the vocabulary, a README.md and a config.json.

    It takes any number of sentences of any length, and ends when the last of them has ended.

    Args:
      translator: the model, the vocabulary and the settings.
      folder: where they are written.
      dtype: of the stored weights: "float32" or "int8", with products of integers.

    Raises:
      UserError: see `onnx_model`.
    """
    model = onnx_model(translator)
    onnx.checker.check_model(model)
    if dtype == "int8":
        model = _quantized(model)
    onnx.save(model, folder / FILE)
    write_files_beside(
        translator,
        folder,
        file=FILE,
        dtype=dtype,
        program="ONNX Runtime",
        imports="import onnxruntime",
        translate=f'session = onnxruntime.InferenceSession("{FILE}")\n'
        '[found] = session.run(None, {"ids": ids})',
        batch="There may be several, with padding behind shorter ones.",
    )


def _quantized(model: onnx.ModelProto) -> onnx.ModelProto:
    logging.disable(
        logging.WARNING
    )  # It advises to prepare the model, which changes nothing in it.
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / FILE
            kind, options = quantization.QuantType.QInt8, {"EnableSubgraph": True}
            quantization.quantize_dynamic(model, path, weight_type=kind, extra_options=options)
            return onnx.load(path)
    finally:
        logging.disable(logging.NOTSET)
