"""Exports as SavedModels that map text to text.

TensorFlow Serving needs nothing but the export; other programs also need TensorFlow and TensorFlow
Text. Smaller types of stored weights do not make requests faster: each request converts them to
float32.
"""

import dataclasses
import inspect
import json
import shlex
import string
import tempfile
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.data.dataset import open_generated
from t2t_keras.decoding.config import DecodeConfig, decode_config
from t2t_keras.decoding.translation import one_line
from t2t_keras.decoding.translator import Translator, translate_and_score
from t2t_keras.environment import expand_path, installed_versions
from t2t_keras.errors import UserError, translated_errors
from t2t_keras.evaluation.results import Result, checkpoint_checksum, read_results, run_result
from t2t_keras.io.terminal import printable
from t2t_keras.serving import messages
from t2t_keras.serving.card import write_card
from t2t_keras.serving.load import WARMUP_FILE, write_manifest
from t2t_keras.serving.signatures import SIGNATURES, TranslationModule, rounded_weights
from t2t_keras.text.tokenizer import Tokenizer
from t2t_keras.training.checkpoint_files import step_of
from t2t_keras.training.checkpoints import TrainedModel
from t2t_keras.training.run_config import RunConfig


def export(
    translator: Translator | TrainedModel | keras.Model,
    tokenizer: Tokenizer | str | Path = "",
    export_dir: str | Path = "",
    *,
    dtype: str = "float32",
    servable_name: str = "translate",
    origin: Sequence[str] = (),
    example: str = "",
    notes: str = "",
) -> Path:
    """Writes a SavedModel to `<export_dir>/<version>/`, where TensorFlow Serving expects it.

    The version is the time in seconds, or the next free number. The folder gets its name when it is
    complete. It also contains the vocabulary as a file, a README.md with the signatures, a
    MODEL_CARD.md, warm-up requests for TensorFlow Serving and a manifest of all files.

    Args:
      translator: the model, the vocabulary and the settings to export; or the result of
        `load_model`; or a model.
      tokenizer: the vocabulary, if the first argument is a model; else this is `export_dir`.
      export_dir: directory of all versions; made if it is missing.
      dtype: dtype of the stored weights, one of `STORED_DTYPES`; the graph computes in the models'
        `compute_dtype`.
      servable_name: name of the model in the README's examples.
      origin: lines for the README and the model card on the origin of the model and its scores.
      example: a sentence in the source language, for the README; "" = "A sentence."
      notes: Markdown for the model card on uses, limits and the licence.

    Returns:
      The path of the version.

    Raises:
      UserError: the files cannot be written, the dtype or a decoding setting is not supported, or
        there is nothing to export.
    """
    translator, export_dir = _translator_and_folder(translator, tokenizer, export_dir)
    module = TranslationModule(translator, dtype)
    manifest = {
        "provenance": installed_versions(),
        "vocabulary": translator.tokenizer.record(),
        "dtype": dtype,
        "outputs": translator.problem.raw_output or "text",
    }
    text = f"Cannot write the export to {export_dir}"
    advice, kinds = "Make room or give another --export_dir.", (OSError, tf.errors.OpError)
    with translated_errors(kinds, text, advice, code="not_written"):
        export_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=export_dir) as folder:
            unfinished = Path(folder) / "1"
            # TensorFlow copies the vocabulary files into assets/.
            files = translator.tokenizer.save(folder)
            module.vocabulary = [tf.saved_model.Asset(str(Path(folder) / file)) for file in files]
            signatures = module.signatures()
            tf.saved_model.save(module, str(unfinished), signatures=signatures)
            _write_warmup(unfinished / WARMUP_FILE, signatures, translator, servable_name)
            config = module.config
            write_readme(unfinished, signatures, manifest, config, servable_name, origin, example)
            write_card(unfinished, translator, "saved_model", dtype, origin, notes)
            write_manifest(unfinished, manifest)  # last, since it lists all other files
            versions = [int(path.name) for path in export_dir.iterdir() if path.name.isdecimal()]
            version = max(int(time.time()), max(versions, default=0) + 1)
            return unfinished.rename(export_dir / str(version))


def _translator_and_folder(
    model: Translator | TrainedModel | keras.Model,
    tokenizer: Tokenizer | str | Path,
    export_dir: str | Path,
) -> tuple[Translator, Path]:
    """Returns the translator and the folder from the arguments of `export`."""
    translator = model
    if isinstance(tokenizer, Tokenizer):
        if isinstance(model, keras.Model):
            translator = Translator(model, tokenizer)
    else:
        export_dir = tokenizer or export_dir
        if isinstance(model, TrainedModel):
            config = decode_config("", model.problem.decoding_defaults)
            translator = Translator(model.model, model.tokenizer, config, problem=model.problem)
    if not isinstance(translator, Translator) or not str(export_dir):
        raise UserError(
            f"export: expected (translator, export_dir), (load_model(run), export_dir) or (model, "
            f"tokenizer, export_dir), got {type(translator).__name__} and {export_dir!r}.",
            code="wrong_type",
        )
    return translator, Path(expand_path(export_dir))


# (texts, words per text) of the warm-up requests; several texts use different kernels from one.
_WARMUP_SHAPES = ((1, 6), (1, 40), (8, 20))


def warmup_texts(tokenizer: Tokenizer, max_tokens: int) -> list[list[str]]:
    """Returns the texts of each warm-up request; the last text is blank, and is not translated.

    With EOS, each text has at most `max_tokens` tokens, since TensorFlow Serving does not load a
    model that rejects a warm-up request.
    """

    def make_text(words: int) -> str:
        letters = "a " * words
        while len(tokenizer.source.encode([letters])[0]) > max_tokens:
            letters = letters[: len(letters) // 2]
        return letters

    return [*([make_text(words)] * count for count, words in _WARMUP_SHAPES), [""]]


def _write_warmup(
    path: Path, signatures: Iterable[str], translator: Translator, servable_name: str
) -> None:
    """Writes the requests that TensorFlow Serving runs while it loads the model."""
    tokenizer, alpha = translator.tokenizer, translator.config.alpha
    batches = warmup_texts(tokenizer, translator.config.max_input_length)
    pairs = [{"text": batch, "translation": batch} for batch in batches]
    inputs: dict[str, list[dict[str, Any]]] = {
        "serving_default": [{"text": batch} for batch in batches],
        "nbest": [{"text": batch, "alpha": alpha} for batch in batches],
        "score": pairs,
        "tokens": [
            {"ids": np.stack(tokenizer.source.encode(batch)), "alpha": alpha} for batch in batches
        ],
        "attention": pairs,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature in signatures:
            for values in inputs[signature]:
                tensors = {name: tf.make_tensor_proto(value) for name, value in values.items()}
                request = messages.predict_request(servable_name, signature, **tensors)
                log = messages.PredictionLog(predict_log={"request": request})
                writer.write(log.SerializeToString())


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
        "decoding": ", ".join(f"{n}={v}" for n, v in dataclasses.asdict(config).items()),
        "versions": ", ".join(f"{n} {v}" for n, v in manifest["provenance"].items()),
        "outputs": "" if outputs == "text" else f"\n{textwrap.fill(outputs, 100)}\n",
        "servable_name": servable_name,
        "servable_name_json": json.dumps(servable_name),
        "example_json": json.dumps(example, ensure_ascii=False),
        "example_shell": shlex.quote(example),
        # For use between single quotes in a shell.
        "example_rest": json.dumps(request, ensure_ascii=False).replace("'", "\\u0027"),
        "signatures": _describe_signatures(signatures),
    }
    template = Path(__file__).with_name("README.template.md").read_text(encoding="utf-8")
    text = string.Template(template).substitute(fields)
    (directory / "README.md").write_text(text, encoding="utf-8")


def _describe_signatures(signatures: Mapping[str, Any]) -> str:
    """Returns, for each signature, its docstring and a table of its tensors."""
    lines = []
    for name, function in signatures.items():
        meaning = inspect.getdoc(getattr(TranslationModule, name)) or ""
        lines += [f"### `{name}`", "", meaning, ""]
        lines += ["| | name | dtype | shape |", "|---|---|---|---|"]
        inputs = {tensor.name: tensor for tensor in SIGNATURES[name]}
        outputs = function.get_concrete_function().structured_outputs
        for kind, tensors in (("input", inputs), ("output", outputs)):
            for key, tensor in sorted(tensors.items()):
                shape = ", ".join("?" if size is None else str(size) for size in tensor.shape)
                lines.append(f"| {kind} | `{key}` | {tensor.dtype.name} | [{shape}] |")
        lines.append("")
    return "\n".join(lines)


def origin_lines(config: RunConfig, checkpoint: str | Path) -> list[str]:
    """Returns lines on the origin of the weights: problem, set, steps and data."""
    return [
        f"problem: {config.problem.name}",
        f"hyperparameter set: {config.hparams_set}",
        f"optimizer steps: {step_of(checkpoint) or 'not known'}",
        f"training data, SHA-256: {config.data}",
    ]


def recorded_scores(config: RunConfig, checkpoint: str | Path, path: str | Path) -> list[str]:
    """Returns a line for each score of the checkpoint in a file of results; [] without the file.

    A result with this problem, set and step may be of other weights: another run's, or an average's
    (its step is its newest source's). Such scores are left out, and their number is printed.
    """
    identity = config.problem.name, config.hparams_set, step_of(checkpoint)
    possible_results = [
        result
        for result in read_results(path)
        if (result.problem, result.set, result.steps) == identity and _main_scores(result)
    ]
    checksum = checkpoint_checksum(checkpoint)
    own_results = [
        result
        for result in possible_results
        if result.checkpoint == checksum and result.is_of_the_model_alone
    ]
    if left_out := len(possible_results) - len(own_results):
        print(
            f"{path}: left out {left_out:,} scores of the same set and step: they are of different "
            f"or unknown weights, or were made with another engine, an ensemble, forbidden words, "
            f"prefixes, or a flag such as --glossary.",
            flush=True,
        )
    return list(map(_score_line, own_results))


def _score_line(result: Result) -> str:
    """Returns a score with its conditions: the search and sacreBLEU's signature."""
    metric, score = _main_scores(result)[0]
    conditions, decode = [], result.decode
    if decode.get("samples"):
        conditions.append(f"sampled, seed {decode.get('seed')}")
    elif "beam_size" in decode and "alpha" in decode:
        conditions.append(f"beam {decode['beam_size']}, alpha {decode['alpha']}")
    if result.bleu_signature:
        conditions.append(f"sacrebleu {result.bleu_signature}")
    line = f"{result.text or result.split}: {score:.2f} {metric}"
    if conditions:
        line += f" ({'; '.join(conditions)})"
    if result.chrf is not None:
        line += f", {result.chrf:.2f} chrF2"
    for convention, entry in result.conventions.items():
        line += f", {entry['bleu']:.2f} BLEU ({convention} {entry['signature']})"
    # A file of results may hold any characters.
    return printable(one_line(line))


def _main_scores(result: Result) -> list[tuple[str, float]]:
    scores = {**result.main, "bleu": result.bleu, "f1": result.f1}
    return [(name.upper(), score) for name, score in scores.items() if score is not None]


def dev_text(config: RunConfig, data_dir: str) -> tuple[list[str], list[str]] | None:
    """Returns sources and references of the dev set; None if the run's own data is missing.

    Raises:
      UserError: `data_dir` has no such data.
    """
    if not (data_dir or config.data_dir):
        return None
    try:
        return open_generated(config.problem, data_dir or config.data_dir).text("dev")
    except UserError:
        if data_dir:
            raise
        return None


def measured_score(
    translator: Translator,
    config: RunConfig,
    checkpoint: str | Path,
    dtype: str,
    text: tuple[list[str], list[str]],
) -> str:
    """Translates a dev set (sources and references), and returns a line with its score.

    Unless weights are stored as float32, also measures the score with exact weights.
    """
    text_name = config.problem.text_name("dev", len(text[1]))
    decode = dataclasses.asdict(translator.config)

    def measure() -> Result:
        score, _ = translate_and_score(translator, *text)
        return run_result(config, checkpoint, "dev", score, decode, text=text_name)

    exact_result = measure()
    if dtype == "float32":
        return _score_line(exact_result)
    with rounded_weights(translator, dtype):
        rounded_result = measure()
    metric, rounded_score = _main_scores(rounded_result)[0]
    _, exact_score = _main_scores(exact_result)[0]
    return (
        f"{_score_line(rounded_result)}, with weights as {dtype}; {exact_score:.2f} {metric} with "
        f"exact weights ({rounded_score - exact_score:+.2f})"
    )
