r"""Translate a sentence, a file, standard input or interactive lines with TensorFlow Serving.

t2t-query-server --server=localhost:8500 --servable_name=translate --inputs_once="A man sleeps."
t2t-query-server --server=localhost:8501 --protocol=rest --servable_name=translate \
    --input_file=news.en --output_file=news.de --batch_size=32 --concurrency=4
"""

import contextlib
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_keras.bin.flags import command, require
from t2t_keras.errors import UserError
from t2t_keras.io.files import STANDARD_STREAM, check_outputs
from t2t_keras.io.flags import Flags
from t2t_keras.io.terminal import interactive_lines, printable, product
from t2t_keras.text.files import check_readable

if TYPE_CHECKING:
    from t2t_keras.serving.client import Client


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.group("Text")
    flags.string("inputs_once", "Translate this sentence and exit")
    flags.path("input_file", "Source, one sentence per line; default, or -: standard input")
    flags.path("output_file", "File for the translations; default, or -: standard output")
    flags.group("Server")
    flags.string("server", "host:port; TensorFlow Serving uses 8500 for gRPC, 8501 for REST")
    flags.string("servable_name", "Name of the model in the server (its --model_name)")
    flags.integer("servable_version", "Version of the model; default: the newest", None, 1)
    flags.string("signature_name", "Signature of the model", "serving_default")
    flags.choice("protocol", "Protocol", ("grpc", "rest"), "grpc")
    flags.group("Requests")
    flags.integer("batch_size", "Maximum lines of a request", 32, 1)
    flags.integer("concurrency", "Maximum requests at a time", 1, 1)
    flags.number("timeout_secs", "Seconds for a request with all its attempts", 10, 0.001)
    flags.integer(
        "max_attempts", "Maximum attempts if the server is unavailable (gRPC makes up to 5)", 5, 1
    )
    flags.group("Security")
    flags.switch("tls", "Encrypt the connection")
    flags.path("tls_ca_file", "Certificates (PEM) to trust; default: the system's")
    flags.path("tls_cert_file", "The client's own certificate (PEM)")
    flags.path("tls_key_file", "Private key (PEM) of --tls_cert_file")
    flags.strings("metadata", "key=value,... to send as gRPC metadata or HTTP headers")


@command(define_flags)
def run(flags: Flags) -> None:
    """Translates as the flags say."""
    require(flags, "server", "servable_name")
    is_one_sentence = flags["inputs_once"].present
    if is_one_sentence and (flags.input_file or flags.output_file or not flags.inputs_once.strip()):
        raise UserError(
            "--inputs_once: expected a sentence. Leave out --input_file and --output_file.",
            code="conflicting_settings",
        )
    with contextlib.closing(_client(flags)) as client:
        if is_one_sentence:
            _print_translation(flags.inputs_once, client)
        elif sys.stdin.isatty() and not flags.input_file and not flags.output_file:
            _translate_interactively(client)
        else:
            _translate_file(flags, client)


def _client(flags: Flags) -> "Client":
    """Returns a client for the model that the flags name."""
    from t2t_keras.serving.client import GrpcClient, RestClient

    logging.getLogger("urllib3").setLevel(logging.CRITICAL)  # it warns of each attempt
    client_class = GrpcClient if flags.protocol == "grpc" else RestClient
    return client_class(
        address=flags.server,
        name=flags.servable_name,
        signature=flags.signature_name,
        version=flags.servable_version,
        tls=flags.tls,
        ca_file=flags.tls_ca_file,
        cert_file=flags.tls_cert_file,
        key_file=flags.tls_key_file,
        metadata=tuple(tuple(entry.split("=", 1)) for entry in flags.metadata or ()),
        timeout=flags.timeout_secs,
        max_attempts=flags.max_attempts,
    )


def _print_translation(source: str, client: "Client") -> None:
    """Prints a translation as tensor2tensor does."""
    [translation] = client.translate([source])
    text = printable(translation.text)
    report = f"\nInput:\n{source}\n\nOutput (Score {translation.score:.3f}):\n{text}\n"
    print(report, file=product(), flush=True)
    if translation.cut:
        print(f"(The input was too long: {translation.cut:,} tokens were left out.)")


def _translate_interactively(client: "Client") -> None:
    """Translates interactive lines."""
    with contextlib.suppress(KeyboardInterrupt):
        for line in filter(str.strip, interactive_lines(">> ")):
            try:
                _print_translation(line, client)
            except UserError as error:
                print(f"({error})")  # the server may answer again for the next line


def _translate_file(flags: Flags, client: "Client") -> None:
    """Translates --input_file or standard input."""
    from t2t_keras.serving.client import translate_stream

    files = flags.input_file, flags.output_file
    source, target = ("" if file == STANDARD_STREAM else file for file in files)
    check_outputs([source] if source else [], [target] if target else [])
    if source:
        check_readable(Path(source))
    output = Path(target) if target else product().buffer
    limits = flags.batch_size, flags.concurrency
    with Path(source).open("rb") if source else contextlib.nullcontext(sys.stdin.buffer) as stream:
        num_lines, num_broken, num_cut = translate_stream(
            client.translate, stream, output, *limits, source or "standard input"
        )
    if target:
        print(f"{target}: {num_lines:,} lines")
    if num_broken:
        print(f"Translations with line breaks or tabs, now spaces: {num_broken:,}", file=sys.stderr)
    if num_cut:
        print(f"Lines cut because they were too long: {num_cut:,}", file=sys.stderr)


if __name__ == "__main__":
    run()
