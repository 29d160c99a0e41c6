"""Stores uploaded files and their translations until they are fetched or expire."""

import asyncio
import contextlib
import dataclasses
import logging
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from t2t_keras.errors import UserError
from t2t_keras.io.files import read_json, write_json
from t2t_keras.settings import convert_all
from t2t_keras.workbench.documents import (
    EXTENSIONS,
    read_document,
    translate_document,
    translated_name,
)
from t2t_keras.workbench.server.config import ServerConfig
from t2t_keras.workbench.server.requests import (
    ApiError,
    Budget,
    JobEndedError,
    Places,
    describe_stacks,
    in_own_thread,
)
from t2t_keras.workbench.server.service import BatchedTranslator, Pair, TranslationService
from t2t_keras.workbench.terms.glossary import Glossary

ADVICE = "Remove its folder."
_FINISHED = ("done", "fetched", "error")
_STATUSES = ("queued", "translating", *_FINISHED)
_LOG = logging.getLogger("t2t_keras.server")

_RECORD, _SOURCE, _TARGET, _TERMS = "record.json", "source", "target", "terms.json"
# Maximum files that are read at once, and that are translated at once: in total, and per client.
_MAX_AT_ONCE, _MAX_AT_ONCE_PER_CLIENT = 8, 2
_MAX_FILES, _MAX_FILES_PER_OWNER = 1_000, 500
_MAX_BYTES, _MAX_BYTES_PER_OWNER = 4 << 30, 1 << 30
_MAX_ATTEMPTS = 3
# Fraction of the shutdown time after which translations of files are stopped.
_STOP_FRACTION = 0.6
_SECONDS_BETWEEN_CLEANUPS = 30.0


@dataclasses.dataclass
class TranslatedFile:
    """An uploaded file, and the state of its translation.

    Attributes:
      file_id: identifies it.
      secret: DeepL's document_key; "" = uploaded by LibreTranslate's API, where the file_id is
        enough to fetch the translation.
      owner: identity of the client that uploaded it.
      name: name of the file, without folders.
      pair: source and target language.
      status: "queued", "translating", "done", "fetched" or "error".
      characters: number of charged characters; after translation, of translated characters.
      error: message for the client.
      changed: time of the last change of status, in seconds since 1970.
      attempts: number of times that a server has begun to translate it.
      client: see `Budget`.
      size: bytes on disk.
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
        """Whether its translation has ended, with success or an error."""
        return self.status in _FINISHED

    @property
    def translated_name(self) -> str:
        """Name of the translation; a template gets another suffix."""
        return translated_name(self.name).name


def read_record(path: Path) -> TranslatedFile:
    """Reads the record in the folder of a file.

    Raises:
      UserError: the record is invalid, or belongs to another folder (a copy).
    """
    names = [field.name for field in dataclasses.fields(TranslatedFile)]
    content = read_json(path, ADVICE, names)
    values = convert_all(
        TranslatedFile, {name: content[name] for name in names}, f"{path}: value of"
    )
    file = TranslatedFile(**values)
    is_consistent = (file.file_id, len(file.pair)) == (path.parent.name, 2)
    smallest = min(file.characters, file.attempts, file.size)
    if not is_consistent or file.status not in _STATUSES or smallest < 0:
        raise UserError(
            f"{path}: expected values that a server has written for this folder. {ADVICE}",
            code="damaged_file",
        )
    return file


class TranslatedFiles:
    """All files of a server.

    With a storage folder, files outlive the server, and the next server finishes them.

    Args:
      service: translates.
      config: has the storage folder, size limits and the time until files expire.
      refund: takes the owner of a failed file, and the number of charged characters.
    """

    def __init__(
        self,
        service: TranslationService,
        config: ServerConfig,
        refund: Callable[[str, int], object],
    ):
        self._service, self._config, self._refund = service, config, refund
        self._temporary_folder: tempfile.TemporaryDirectory | None = None
        self._files: dict[str, TranslatedFile] = {}
        self._tasks: dict[str, asyncio.Task] = {}
        self._budgets: dict[str, Budget] = {}
        self._cleaner: asyncio.Task | None = None
        self._reading_places = Places(_MAX_AT_ONCE, _MAX_AT_ONCE_PER_CLIENT)
        self._translating_places = Places(_MAX_AT_ONCE, _MAX_AT_ONCE_PER_CLIENT)

    def begin(self) -> None:
        """Resumes the files of an earlier server, and starts to remove expired files."""
        if self._config.storage:
            self._folder = self._config.storage / "files"
        else:
            self._temporary_folder = tempfile.TemporaryDirectory(prefix="t2t-serve-")
            self._folder = Path(self._temporary_folder.name)
        for folder in self._folder.iterdir() if self._folder.exists() else ():
            if not (folder / _RECORD).exists():
                shutil.rmtree(folder, ignore_errors=True)  # The upload was not complete.
                continue
            try:
                self._resume(folder / _RECORD)
            except UserError as error:
                self._files.pop(folder.name, None)
                _LOG.error("%s is skipped: %s", folder, error)
        self._cleaner = asyncio.create_task(self._clean())

    def _resume(self, record: Path) -> None:
        file = self._files[record.parent.name] = read_record(record)
        if file.is_finished:
            return
        if file.status == "queued" and file.attempts:
            file.attempts -= 1  # The server stopped normally: the file did not crash it.
        if file.attempts >= _MAX_ATTEMPTS:
            # It may have crashed the earlier servers.
            _LOG.error("Gave up on %s after %d attempts", record.parent, file.attempts)
            self.fail(file, f"Given up after {file.attempts} attempts.")
            return
        self.translate(file, file.pair, file.characters)

    async def close(self, deadline: float | None = None) -> None:
        """Waits until all files are translated; with storage, only those whose work has begun.

        Args:
          deadline: in seconds of `time.monotonic`. Unfinished files are left to the next server;
            without storage, they are lost.
        """
        if self._cleaner:
            self._cleaner.cancel()
        for file in self._files.values() if self._temporary_folder is None else ():
            if file.status == "queued" and (task := self._tasks.get(file.file_id)):
                task.cancel()  # The next server finishes it.
        if tasks := list(self._tasks.values()):
            seconds = deadline and max(deadline - time.monotonic(), 0.0)
            await asyncio.wait(tasks, timeout=seconds and _STOP_FRACTION * seconds)
            self.end_jobs()
            await asyncio.wait(tasks, timeout=deadline and max(deadline - time.monotonic(), 0.0))
        if self._temporary_folder:
            self._temporary_folder.cleanup()

    def end_jobs(self) -> None:
        """Stops the translation of all files at the next search."""
        for budget in self._budgets.values():
            budget.end("server_stops", "The server is stopping. Try again.")

    def formats(self) -> list[str]:
        """Returns the suffixes of supported files, such as .po."""
        return sorted(EXTENSIONS)

    @contextlib.asynccontextmanager
    async def storing(
        self, content: BinaryIO, name: str, owner: str, client: str = ""
    ) -> AsyncIterator[TranslatedFile]:
        """Stores a file for `translate`; removes it after an error in the block.

        Args:
          content: the content of the file.
          name: the client's name for the file; its suffix determines the format.
          owner: identity of the client.
          client: see `Budget`.

        Raises:
          ApiError: the format is unknown, the file is too large, or the client or the server has
            too many files or bytes.
        """
        name = PurePosixPath(name.replace("\\", "/")).name.replace("\0", "")[-200:]
        if PurePosixPath(name).suffix.lower() not in self.formats():
            raise ApiError(400, "Invalid request: file format not supported")
        size = content.seek(0, os.SEEK_END)
        content.seek(0)
        if size > (limit := self._config.max_file_bytes):
            raise ApiError(413, f"Request entity too large: expected at most {limit:,} bytes")
        self._check_room(owner, size)
        # DeepL's clients expect capitals.
        file_id, secret = secrets.token_hex(16).upper(), secrets.token_hex(32).upper()
        file = TranslatedFile(file_id, secret, owner, name, client=client, size=size)
        self._files[file.file_id] = file
        try:
            await asyncio.to_thread(self._store, file, content)
            yield file
        except BaseException:
            self.remove(file)
            raise

    def _check_room(self, owner: str, size: int) -> None:
        owner_sizes = [file.size for file in self._files.values() if file.owner == owner]
        all_sizes = [file.size for file in self._files.values()]
        is_full = len(all_sizes) >= _MAX_FILES or len(owner_sizes) >= _MAX_FILES_PER_OWNER
        owner_bytes, all_bytes = sum(owner_sizes) + size, sum(all_sizes) + size
        if is_full or owner_bytes > _MAX_BYTES_PER_OWNER or all_bytes > _MAX_BYTES:
            raise ApiError(429, "Too many requests: there are too many files", 60)

    async def read_texts(self, file: TranslatedFile) -> list[str]:
        """Returns the untranslated texts of a file; raises `ApiError` if it cannot be read."""
        try:
            async with self._reading_places.place(file.client):
                document = await in_own_thread(read_document, self._path(file, _SOURCE))
        except UserError as error:
            message = self._without_folders(file, str(error))
            raise ApiError(400, f"Invalid request: {message}") from error
        texts = [unit.source for unit in document.units if not unit.is_translated]
        characters, limit = sum(map(len, texts)), self._config.max_file_characters
        if characters > limit:
            message = f"file ({characters:,} characters) exceeds text limit ({limit:,})"
            raise ApiError(413, f"Invalid request: {message}")
        return texts

    async def store_terms(self, file: TranslatedFile, glossary: Glossary | None) -> None:
        """Stores the terms for a file, outside its record because there may be many."""
        terms = [(term.source, term.target) for term in glossary or ()]

        def write() -> None:
            with self._writing(file):
                write_json(self._folder / file.file_id / _TERMS, {"terms": terms})

        if terms:
            await in_own_thread(write)

    def use_as_translation(self, file: TranslatedFile, pair: Pair) -> None:
        """Uses a file that is already in the target language as its own translation."""
        file.pair = pair
        self._path(file, _SOURCE).replace(self.translation_path(file))
        self._set_status(file, "done")

    def translate(self, file: TranslatedFile, pair: Pair, characters: int) -> None:
        """Starts the translation of a file.

        Args:
          file: a stored file.
          pair: source and target language.
          characters: number of charged characters.
        """
        file.pair, file.characters = pair, characters
        self._files[file.file_id] = file
        self._write_record(file)
        budget = self._service.budget(file.client, characters)
        task = asyncio.create_task(self._translate(file, budget))
        self._tasks[file.file_id], self._budgets[file.file_id] = task, budget
        task.add_done_callback(lambda _: self._forget(file))

    def _forget(self, file: TranslatedFile) -> None:
        self._tasks.pop(file.file_id, None)
        self._budgets.pop(file.file_id, None)

    @contextlib.contextmanager
    def _writing(self, file: TranslatedFile) -> Iterator[None]:
        """Raises `JobEndedError` and deletes the folder if the file was removed in the block."""
        try:
            yield
        finally:
            if file.file_id not in self._files:
                shutil.rmtree(self._folder / file.file_id, ignore_errors=True)
                raise JobEndedError("The file was removed.", code="client_gone")

    def _store(self, file: TranslatedFile, content: BinaryIO) -> None:
        source = self._path(file, _SOURCE)
        with self._writing(file):
            source.parent.mkdir(parents=True)
            with source.open("wb") as copy:
                shutil.copyfileobj(content, copy)

    def _path(self, file: TranslatedFile, stem: str) -> Path:
        """Returns a path that takes only the suffix from the client's file name."""
        return self._folder / file.file_id / f"{stem}{PurePosixPath(file.name).suffix.lower()}"

    def _write_record(self, file: TranslatedFile) -> None:
        write_json(self._folder / file.file_id / _RECORD, dataclasses.asdict(file))

    def find(self, file_id: str) -> TranslatedFile:
        """Returns a file; raises `ApiError` if it does not exist or was fetched."""
        file = self._files.get(file_id)
        if file is None or file.status == "fetched":
            raise ApiError(404, "Not found")
        return file

    def translation_path(self, file: TranslatedFile) -> Path:
        """Returns the path of a finished translation."""
        return self._path(file, _TARGET)

    def claim(self, file: TranslatedFile) -> Path:
        """Returns the path of the translation the first time; raises `ApiError` after that."""
        if file.status != "done":
            raise ApiError(404, "Not found")
        self._set_status(file, "fetched")
        return self.translation_path(file)

    def budget(self, file: TranslatedFile) -> Budget:
        """Returns the budget for the translation of a file."""
        return self._budgets[file.file_id]

    async def wait_until_finished(self, file: TranslatedFile) -> None:
        """Waits until a file is translated; raises `ApiError` if that failed."""
        budget = self._budgets.get(file.file_id)
        if task := self._tasks.get(file.file_id):
            await asyncio.shield(task)
        if file.status == "error":
            if budget and budget.end_error:
                raise ApiError(503, file.error)  # It exceeded its budget.
            raise ApiError(400, f"Invalid request: {file.error}")
        if file.status != "done":
            raise JobEndedError("The server is stopping. Try again.", code="server_stops")

    async def _translate(self, file: TranslatedFile, budget: Budget) -> None:
        async with self._translating_places.place(file.client):
            if budget.end_error:
                return  # It was removed, or the server is stopping.
            file.attempts += 1
            self._set_status(file, "translating")
            try:
                file.characters = await in_own_thread(self._translate_now, file, budget)
            except JobEndedError as error:
                if error.code == "server_stops":
                    self._set_status(file, "queued")  # For the next server.
                else:
                    self._set_status(file, "error", str(error))
            except UserError as error:
                self.fail(file, self._without_folders(file, str(error)))
            except Exception as error:
                suffix = PurePosixPath(file.name).suffix
                _LOG.error("A '%s' file was not translated\n%s", suffix, describe_stacks(error))
                self.fail(file, "The file cannot be translated.")
            else:
                self._set_status(file, "done")
            if file.is_finished:
                self._path(file, _SOURCE).unlink(missing_ok=True)

    def _translate_now(self, file: TranslatedFile, budget: Budget) -> int:
        if file.pair not in self._service.models:
            raise UserError("The model is no longer served.", code="model_removed")
        with budget.working():
            document = read_document(self._path(file, _SOURCE), *file.pair)
            terms_path, glossary = self._folder / file.file_id / _TERMS, None
            if terms_path.exists():
                glossary = Glossary.of(read_json(terms_path, ADVICE, ("terms",))["terms"])
            translator = BatchedTranslator(self._service, file.pair, budget, glossary)
            translate_document(document, translator)
            budget.check()
            with self._writing(file):
                document.save(self.translation_path(file))
                file.size = self.translation_path(file).stat().st_size
        return translator.characters

    def _without_folders(self, file: TranslatedFile, message: str) -> str:
        for path in (self._path(file, _SOURCE), self._path(file, _TARGET)):
            message = message.replace(str(path), file.name)
        return message.replace(str(self._folder), "")

    def fail(self, file: TranslatedFile, error: str) -> None:
        """Marks a file as failed, and refunds its characters."""
        self._refund(file.owner, file.characters)
        self._set_status(file, "error", error)

    def _set_status(self, file: TranslatedFile, status: str, error: str = "") -> None:
        file.status, file.error, file.changed = status, error, time.time()
        if file.file_id not in self._files:
            return  # It was removed meanwhile, with its folder.
        with contextlib.suppress(UserError):  # When the disk is full, only memory has the record.
            self._write_record(file)

    def remove(self, file: TranslatedFile) -> None:
        """Removes a file and its translation, and ends the work on it."""
        if budget := self._budgets.get(file.file_id):
            budget.end("client_gone", "The file was removed.")
        self._files.pop(file.file_id, None)
        shutil.rmtree(self._folder / file.file_id, ignore_errors=True)

    async def _clean(self) -> None:
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_CLEANUPS)
            self.remove_old(time.time())

    def remove_old(self, now: float) -> None:
        """Removes the files that have expired; `now` is in seconds since 1970."""
        expiry = now - 60 * self._config.keep_files_minutes
        for file in list(self._files.values()):
            if file.is_finished and file.changed < expiry:
                self.remove(file)
