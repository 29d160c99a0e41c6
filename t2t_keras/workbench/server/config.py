"""The settings of a server: batches, limits, storage."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from t2t_keras.workbench.terms.glossary import Glossary

MEBIBYTE = 1 << 20


@dataclasses.dataclass(frozen=True)
class ServerConfig:
    """The settings of a server.

    Attributes:
      max_wait_ms: longest wait of an idle model for more requests to translate together.
      max_batch_lines: most lines that a model translates together.
      max_job_seconds: longest work for a request, or for each `max_characters` of a file, without
        waiting.
      stop_seconds: longest time from the signal to stop until the end.
      max_queue_lines: lines that may wait for one model; further requests get HTTP 429.
      max_texts: most texts of a request.
      max_characters: most characters of a request's texts together.
      max_file_bytes: largest file to translate.
      max_file_characters: most characters of a file to translate.
      requests_per_minute: of one key, or of one address without keys; 0 = any number.
      api_keys_file: see `access.ApiKeys`; None = whoever reaches the server may use it.
      cors: origins, as https://example.org, whose pages may use the server; "*" = all.
      glossaries: terms for requests that bring none, by pair of languages; under None, for others.
      split_sentences: whether sentences of a text are translated one by one.
      log_text: whether the log shows what was translated.
      storage: folder for glossaries, files and usage; None = they are lost at the end.
      keep_files_minutes: how long a translated file can be fetched.
      reload_seconds: how often to look for newer versions of the models; 0 = never.
    """

    max_wait_ms: float = 5.0
    max_batch_lines: int = 128
    max_queue_lines: int = 10_000
    max_job_seconds: float = 60.0
    stop_seconds: float = 20.0
    max_texts: int = 1_000
    max_characters: int = 200_000
    max_file_bytes: int = 30 * MEBIBYTE
    max_file_characters: int = 1_000_000
    requests_per_minute: int = 0
    api_keys_file: Path | None = None
    cors: tuple[str, ...] = ()
    glossaries: Mapping[tuple[str, str] | None, Glossary] = dataclasses.field(default_factory=dict)
    split_sentences: bool = True
    log_text: bool = False
    storage: Path | None = None
    keep_files_minutes: float = 60.0
    reload_seconds: float = 5.0
