"""The curves of a run as lines of JSON, where there is no TensorFlow to write TensorBoard's."""

import json
from pathlib import Path

from t2t_keras.errors import UserError

_FILE = "scalars.jsonl"


class JsonCurves:
    """`<kind>/scalars.jsonl` of a run, as `train` and `eval`: a line for each point in time.

    A run that continues adds its lines; like TensorBoard's files they can hold a step twice, once
    from before it was stopped.

    Args:
      output_dir: the run's.
    """

    def __init__(self, output_dir: str | Path):
        self._output_dir = Path(output_dir)

    def write(self, kind: str, step: int, scalars: dict[str, float]) -> None:
        """Adds a point to each curve of a kind.

        Raises:
          UserError: the file cannot be written, as on a full disk.
        """
        path = self._output_dir / kind / _FILE
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"step": step, **scalars}) + "\n")
        except OSError as error:
            raise UserError(
                f"{path} cannot be written: {error.strerror}. Make room, then run the same command "
                f"again."
            ) from error

    def close(self) -> None:
        """Has nothing to end: no file stays open."""
