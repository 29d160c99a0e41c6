"""Translates a sentence, a file, standard input or what is typed with TensorFlow Serving.

t2t-query-server --server=localhost:8500 --servable_name=translate --inputs_once="A man sleeps."
t2t-query-server --server=localhost:8501 --protocol=rest --servable_name=translate \
    --input_file=news.en --output_file=news.de --batch_size=32 --concurrency=4
"""

import contextlib
import functools
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags as absl_flags

from t2t_keras.bin.flags import FlagValues, required, run_command
from t2t_keras.bin.terminal import typed_lines
from t2t_keras.errors import UserError


def define_flags(flags: FlagValues) -> None:
    """Adds this command's own flags, named as in tensor2tensor where that has them."""

    def text(name: str, default: str, meaning: str) -> None:
        absl_flags.DEFINE_string(name, default, meaning, flag_values=flags)

    def number(name: str, default: int | None, meaning: str) -> None:
        absl_flags.DEFINE_integer(name, default, meaning, 1, flag_values=flags)

    text("server", "", "host:port of TensorFlow Serving; its usual ports: 8500 gRPC, 8501 REST.")
    text("servable_name", "", "Name of the model in the server (its --model_name).")
    number("servable_version", None, "Version of the model; default: the newest.")
    text("signature_name", "serving_default", "Signature that gives translation and score.")
    absl_flags.DEFINE_enum(
        "protocol", "grpc", ["grpc", "rest"], "How to speak to the server.", flag_values=flags
    )
    text("inputs_once", "", "Translates this sentence, and ends.")
    text("input_file", "", "Source text, a sentence a line; default: standard input.")
    text("output_file", "", "Where the translations go; default: standard output.")
    number("batch_size", 32, "Most lines of a request.")
    number("concurrency", 1, "Most requests at once.")
    absl_flags.DEFINE_float(
        "timeout_secs", 10.0, "Seconds for a request, all its attempts.", 0.001, flag_values=flags
    )
    number("max_attempts", 5, "Most attempts where a server has no time or is not there.")
    absl_flags.DEFINE_boolean("tls", False, "Encrypts the connection.", flag_values=flags)
    text("tls_ca_file", "", "Certificates (PEM) to trust; default: the system's.")
    text("tls_cert_file", "", "The client's own certificate (PEM).")
    text("tls_key_file", "", "Its private key (PEM).")
    absl_flags.DEFINE_list(
        "metadata", [], "key=value,... of gRPC metadata or HTTP headers.", flag_values=flags
    )


def main(flags: FlagValues) -> None:
    """Translates as the flags say."""
    from t2t_keras.serving.clients import GrpcClient, RestClient, translate
    from t2t_keras.serving.retries import Retries

    required(flags, "server", "servable_name")
    once = flags["inputs_once"].present
    for name in ("input_file", "output_file"):
        if once and getattr(flags, name):
            raise UserError(f"--inputs_once and --{name} exclude each other: leave one out.")
    if once and not flags.inputs_once.strip():
        raise UserError("--inputs_once is blank: give the sentence to translate.")
    served = _served(flags)
    client = (GrpcClient if flags.protocol == "grpc" else RestClient)(served)
    retries = Retries(attempts=flags.max_attempts, timeout=flags.timeout_secs)
    answer = functools.partial(translate, client, retries=retries)
    try:
        if once:
            _print_answer(flags.inputs_once, answer([flags.inputs_once])[0])
        elif sys.stdin.isatty() and not flags.input_file and not flags.output_file:
            _interactive(answer)
        else:
            _stream(flags, answer)
    finally:
        client.close()


def _served(flags: FlagValues):
    """Returns the model that the flags name."""
    from t2t_keras.serving.server_address import Served, Tls

    files = {name: getattr(flags, f"tls_{name}") for name in ("ca_file", "cert_file", "key_file")}
    if any(files.values()) and not flags.tls:
        raise UserError("--tls_ca_file, --tls_cert_file and --tls_key_file need --tls.")
    if malformed := [entry for entry in flags.metadata if "=" not in entry]:
        raise UserError(f"--metadata={malformed[0]} is not of the form key=value,key=value.")
    return Served(
        address=flags.server,
        name=flags.servable_name,
        signature=flags.signature_name,
        version=flags.servable_version,
        tls=Tls(**files) if flags.tls else None,
        metadata=tuple(tuple(entry.split("=", 1)) for entry in flags.metadata),
    )


def _print_answer(source: str, answer) -> None:
    """Prints as tensor2tensor does."""
    print(f"\nInput:\n{source}\n\nOutput (Score {answer.score:.3f}):\n{answer.text}\n", flush=True)
    if answer.cut:
        print(f"(The input was too long: {answer.cut:,} tokens were left out.)")


def _interactive(answer) -> None:
    """Translates what is typed."""
    with contextlib.suppress(KeyboardInterrupt):
        for line in typed_lines(">> "):
            try:
                if line.strip():
                    _print_answer(line, answer([line])[0])
            except UserError as error:
                # The server may be back for the next line.
                print(f"({error})")


def _stream(flags: FlagValues, answer) -> None:
    """Translates --input_file or standard input."""
    from t2t_keras.serving.late_file import LateFile
    from t2t_keras.serving.query import translate_stream

    with contextlib.ExitStack() as files:
        source, target = sys.stdin.buffer, sys.stdout.buffer
        try:
            if flags.input_file:
                source = files.enter_context(Path(flags.input_file).open("rb"))
            if flags.output_file:
                path = Path(flags.output_file)
                if flags.input_file and path.exists() and path.samefile(flags.input_file):
                    raise UserError("--input_file and --output_file are the same file.")
                target = files.enter_context(LateFile(path))
        except OSError as error:
            raise UserError(f"{error.filename} cannot be opened: {error.strerror}.") from error
        count, broken, cut = translate_stream(
            answer,
            source,
            target,
            flags.batch_size,
            flags.concurrency,
            flags.input_file or "standard input",
        )
    if flags.output_file:
        print(f"{flags.output_file}: {count:,} lines")
    if broken:
        print(
            f"{broken:,} translations held line breaks or tabs, which became spaces.",
            file=sys.stderr,
        )
    if cut:
        print(f"{cut:,} lines were too long and were cut.", file=sys.stderr)


def run(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    run_command(define_flags, main, argv)


if __name__ == "__main__":
    run()
