"""Records of the files that clients send, in memory and on the disk."""

import dataclasses
import math
import time
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.io.state import read_json
from t2t_keras.workbench.server.service import Pair

ADVICE = "Remove its folder."
_FINISHED = ("done", "fetched", "error")
_STATUSES = ("queued", "translating", *_FINISHED)
_LATER_FIELDS = ("attempts", "client", "size")  # that records of older servers lack


@dataclasses.dataclass
class TranslatedFile:
    """A file, or its translation.

    Attributes:
      file_id: names it.
      secret: DeepL's document_key, which is asked for as well; "" = it came by LibreTranslate's
        API, by which whoever knows its file_id may fetch the translation.
      owner: identity of the client that sent it.
      name: of the file, without folders.
      pair: languages.
      status: "queued", "translating", "done", "fetched" or "error".
      characters: charged for it; once it is done, translated.
      error: message for the client.
      changed: when the status changed, in seconds since 1970.
      attempts: how often a server has begun to translate it.
      client: whose share of the machine it uses, see `Budget`.
      size: bytes on the disk.
    """

    file_id: str
    secret: str
    owner: str
    name: str
    pair: Pair = ("", "")
    status: str = "queued"
    characters: int = 0
    error: str = ""
    changed: float = dataclasses.field(default_factory=time.time)
    attempts: int = 0
    client: str = ""
    size: int = 0

    @property
    def is_finished(self) -> bool:
        """Whether nothing more happens to it."""
        return self.status in _FINISHED

    @property
    def translated_name(self) -> str:
        """Name of the translation: that of a template ends otherwise."""
        from t2t_keras.workbench.documents import translated_name

        return translated_name(self.name).name


def read_record(path: Path) -> TranslatedFile:
    """Reads the record in the folder of a file.

    Raises:
      UserError: it is no record, or that of another folder, as of a copy.
    """
    fields = [field.name for field in dataclasses.fields(TranslatedFile)]
    content = read_json(path, ADVICE, [name for name in fields if name not in _LATER_FIELDS])
    file = TranslatedFile(**{name: content[name] for name in fields if name in content})
    if isinstance(file.pair, list):
        file.pair = tuple(file.pair)
    if wrong := _wrong_fields(file, path.parent.name):
        raise UserError(
            f"{path}: unexpected values of {', '.join(wrong)}; expected those that a server has "
            f"written. {ADVICE}",
            code="bad_file_record",
        )
    return file


def _wrong_fields(file: TranslatedFile, folder: str) -> list[str]:
    example, values = TranslatedFile(folder, "", "", ""), dataclasses.asdict(file)
    wrong = [
        name for name, value in values.items() if type(value) is not type(getattr(example, name))
    ]
    if wrong:
        return wrong
    limits = {
        "file_id": file.file_id == folder,
        "pair": [type(code) for code in file.pair] == [str, str],
        "status": file.status in _STATUSES,
        "changed": math.isfinite(file.changed),
        **{name: values[name] >= 0 for name in ("characters", "attempts", "size")},
    }
    return [name for name, is_right in limits.items() if not is_right]
