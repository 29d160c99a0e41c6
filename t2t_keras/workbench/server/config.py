"""The settings of a server."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_keras.settings import setting

if TYPE_CHECKING:
    from t2t_keras.workbench.terms.glossary import Glossary

MEBIBYTE = 1 << 20


@dataclasses.dataclass(frozen=True)
class ServerConfig:
    """The settings of a server.

    Attributes:
      max_file_bytes: maximum size of a file.
      api_keys_file: see `access.ApiKeys`; None = no key is needed.
      cors: origins, as https://example.org, whose pages may use the server; "*" = all.
      glossaries: default terms by language pair; the key None is for all other pairs.
      storage: folder for glossaries, files and usage; None = they are lost at shutdown.
      reload_seconds: seconds between checks for newer versions of the models; 0 = never.
    """

    max_wait_ms: float = setting(
        5.0, "milliseconds for which an idle model waits to fill a batch", minimum=0
    )
    max_batch_lines: int = setting(128, "maximum number of lines per batch", minimum=1)
    max_queue_lines: int = setting(
        10_000,
        "maximum number of lines that wait for a model; further requests get HTTP 429",
        minimum=1,
    )
    max_job_seconds: float = setting(
        60.0,
        "maximum seconds of computation per request; for files, per --max_characters of text",
        minimum=0,
    )
    stop_seconds: float = setting(
        20.0, "maximum seconds to finish running requests after SIGTERM", minimum=0
    )
    max_texts: int = setting(1_000, "maximum number of texts per request", minimum=1)
    max_characters: int = setting(200_000, "maximum number of characters per request", minimum=1)
    max_file_bytes: int = 30 * MEBIBYTE
    max_file_characters: int = setting(
        1_000_000, "maximum number of characters per file", minimum=1
    )
    requests_per_minute: int = setting(
        0,
        "maximum per API key, or per address if no key is needed; 0 = no limit",
        minimum=0,
    )
    api_keys_file: Path | None = None
    cors: tuple[str, ...] = ()
    glossaries: "Mapping[tuple[str, str] | None, Glossary]" = dataclasses.field(
        default_factory=dict
    )
    split_sentences: bool = setting(True, "split texts into sentences before translation")
    log_text: bool = setting(False, "write source texts and translations to the log")
    storage: Path | None = None
    keep_files_minutes: float = setting(
        60.0, "minutes for which a finished file can be downloaded", minimum=0
    )
    reload_seconds: float = 5.0
