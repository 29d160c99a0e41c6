"""`README.md` of an export: where the model comes from, how to serve it and how to ask it."""

import dataclasses
import inspect
import json
import shlex
import string
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.serving.export.signatures import SIGNATURES, TranslationModule


def write_readme(
    directory: Path,
    signatures: Mapping[str, Any],
    manifest: Mapping[str, Any],
    config: DecodeConfig,
    servable_name: str,
    origin: Sequence[str],
    example: str,
) -> None:
    """Writes the README of a version; see `export` for the arguments.

    `signatures` are the exported functions, by name, and `manifest` the contents of manifest.json.
    """
    example = example or "A sentence."
    request = {"signature_name": "serving_default", "inputs": {"text": [example]}}
    outputs = manifest["outputs"]
    fields = {
        "origin": "\n".join(f"- {line}" for line in origin or ["origin: not known"]),
        "vocabulary_file": manifest["vocabulary"]["file"],
        "vocabulary_size": f"{manifest['vocabulary']['size']:,}",
        "vocabulary_sha256": manifest["vocabulary"]["sha256"],
        "dtype": manifest["dtype"],
        "decoding": ", ".join(f"{k}={v}" for k, v in dataclasses.asdict(config).items()),
        "versions": ", ".join(f"{k} {v}" for k, v in manifest["provenance"].items()),
        "outputs": "" if outputs == "text" else f"\n{textwrap.fill(outputs, 100)}\n",
        "servable_name": servable_name,
        "servable_name_json": json.dumps(servable_name),
        "example_json": json.dumps(example, ensure_ascii=False),
        "example_shell": shlex.quote(example),
        # Stands between single quotes of a shell.
        "example_rest": json.dumps(request, ensure_ascii=False).replace("'", "\\u0027"),
        "signatures": _signatures(signatures),
    }
    template = Path(__file__).with_name("README.template.md").read_text(encoding="utf-8")
    text = string.Template(template).substitute(fields)
    (directory / "README.md").write_text(text, encoding="utf-8")


def _signatures(signatures: Mapping[str, Any]) -> str:
    """Returns what each signature does, and a table of its tensors."""
    lines = []
    for name, function in signatures.items():
        meaning = inspect.getdoc(getattr(TranslationModule, name))
        lines += [f"### `{name}`", "", meaning, ""]
        lines += ["| | name | dtype | shape |", "|---|---|---|---|"]
        inputs = {each.name: each for each in SIGNATURES[name]}
        outputs = function.get_concrete_function().structured_outputs
        for kind, tensors in (("input", inputs), ("output", outputs)):
            for key, tensor in sorted(tensors.items()):
                shape = ", ".join("?" if size is None else str(size) for size in tensor.shape)
                lines.append(f"| {kind} | `{key}` | {tensor.dtype.name} | [{shape}] |")
        lines.append("")
    return "\n".join(lines)
