"""Serve models with the APIs of LibreTranslate and DeepL, and on a web page.

t2t-serve --model=en-de=runs/averaged --port=5000
t2t-serve --model=en-de=exports/en-de --model=en-fr=runs/french --api_keys_file=keys.tsv

A model is a run, an export of t2t-exporter --format=ctranslate2, or a folder of numbered exports.
The server loads newer versions when they appear; the old one answers until then.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_keras.bin.flags import command, define_common, require
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.errors import UserError, report_missing_package
from t2t_keras.io.flags import Flags
from t2t_keras.registry import ENGINES
from t2t_keras.settings import setting_fields
from t2t_keras.workbench.server.config import MEBIBYTE, ServerConfig

if TYPE_CHECKING:
    from t2t_keras.workbench.terms.glossary import Glossary


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.group("Models")
    flags.named_paths(
        "model", "Language pair and model, as en-de=runs/averaged; repeat for more pairs"
    )
    engine_help = "Software that runs the models; default: depends on the model's files"
    flags.known_name("engine", engine_help, ENGINES, None)
    define_common(flags, "decode_hparams")
    flags.named_paths(
        "glossary",
        "Terms for requests without a glossary: a file of source<tab>target lines, or en-de=FILE",
    )
    flags.fields(ServerConfig, "split_sentences")
    flags.number("reload_secs", "Seconds between checks for newer models; 0 = never", 5)
    flags.group("Network")
    flags.string("host", "Address to listen on; 0.0.0.0 = all networks", "127.0.0.1")
    flags.integer("port", "Port to listen on; 0 = a free one", 5000, maximum=65535)
    flags.path("certificate", "PEM file of the certificate, for HTTPS; needs --key")
    flags.path("key", "PEM file of the certificate's private key")
    flags.strings(
        "trusted_proxies",
        "Trusted proxies, for X-Forwarded-For: addresses separated by commas",
    )
    flags.strings(
        "cors",
        "Sites that may call, as https://example.org,https://example.com; * = all",
    )
    flags.group("Batches")
    flags.fields(ServerConfig, "max_wait_ms", "max_batch_lines", "max_queue_lines")
    flags.group("Limits")
    flags.path(
        "api_keys_file", "File of API keys, one per line; default: anyone may use the server"
    )
    flags.fields(ServerConfig, "requests_per_minute", "max_job_seconds", "stop_seconds")
    flags.fields(ServerConfig, "max_texts", "max_characters", "max_file_characters")
    flags.integer("max_file_megabytes", "Maximum size of a file, in MiB", 30, 1)
    flags.group("Storage and log")
    flags.path("storage", "Directory for glossaries, files and usage; default: lost at shutdown")
    flags.fields(ServerConfig, "keep_files_minutes", "log_text")


@command(define_flags)
def run(flags: Flags) -> None:
    """Starts the server with the settings of the flags."""
    with report_missing_package("The server", "server"):
        from t2t_keras.workbench.server.models import ModelSource
        from t2t_keras.workbench.server.run import Address, serve
    require(flags, "model")
    if bool(flags.certificate) != bool(flags.key):
        raise UserError(
            "TLS needs both --certificate and --key: give both, or neither.",
            code="conflicting_settings",
        )
    sources = [
        ModelSource.parse(text, flags.engine or "", flags.decode_hparams) for text in flags.model
    ]
    config = ServerConfig(
        **{name: getattr(flags, name) for name in setting_fields(ServerConfig)},
        max_file_bytes=flags.max_file_megabytes * MEBIBYTE,
        api_keys_file=_optional_path(flags.api_keys_file),
        storage=_optional_path(flags.storage),
        glossaries=_read_glossaries(flags.glossary or ()),
        cors=tuple(flags.cors or ()),
        reload_seconds=flags.reload_secs,
    )
    address = Address(
        flags.host,
        flags.port,
        _optional_path(flags.certificate),
        _optional_path(flags.key),
        tuple(flags.trusted_proxies or ()),
    )
    for source in sources:
        source.stored_model().share_cores(DecodeConfig())
    serve(sources, config, address)


def _read_glossaries(arguments: Iterable[str]) -> "dict[tuple[str, str] | None, Glossary]":
    """Reads the glossaries of --glossary, by language pair; None = all pairs."""
    from t2t_keras.workbench.server.languages import parse_pair
    from t2t_keras.workbench.terms.glossary import Glossary

    glossaries: dict[tuple[str, str] | None, Glossary] = {}
    for argument in arguments:
        languages, equals, path = argument.rpartition("=")
        pair = parse_pair(languages) if equals else None
        if pair in glossaries:
            raise UserError(
                f"--glossary={argument}: expected one file for {languages or 'all pairs'}, got "
                f"two. Join them.",
                code="given_twice",
            )
        glossaries[pair] = Glossary.read(path)
    return glossaries


def _optional_path(text: str) -> Path | None:
    return Path(text) if text else None


if __name__ == "__main__":
    run()
