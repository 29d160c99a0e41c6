"""Which reader belongs to which toolkit."""

from pathlib import Path

from t2t_keras.conversion.fairseq import read_fairseq
from t2t_keras.conversion.imported import Imported
from t2t_keras.conversion.marian import read_huggingface
from t2t_keras.conversion.tensor2tensor import read_tensor2tensor

TOOLKITS = ("tensor2tensor", "marian", "huggingface", "fairseq", "opennmt_tf")


def read_model(
    toolkit: str,
    model: str | Path,
    languages: tuple[str, str],
    vocabulary: str | Path = "",
    target_space: int | None = None,
) -> Imported:
    """Reads the model of a toolkit; see the reader of each for what it needs.

    Args:
      toolkit: one of `TOOLKITS`.
      model: its folder or checkpoint.
      languages: of source and target.
      vocabulary: a file, or two with a comma between: those of source and target; "" = those
        beside the model.
      target_space: see `read_tensor2tensor`.

    Raises:
      UserError: a file is missing or damaged, or the model cannot be represented.
    """
    if toolkit == "tensor2tensor":
        return read_tensor2tensor(model, vocabulary, languages[1], target_space)
    if toolkit == "fairseq":
        return read_fairseq(model, *languages)
    return read_huggingface(model)
