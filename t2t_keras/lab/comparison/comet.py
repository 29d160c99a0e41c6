"""COMET (Rei et al., 2020), by Unbabel's package and a model that the user has.

The package needs NumPy 1 and protobuf 4, which TensorFlow does not go with: it may stand in an
environment of its own, whose Python computes the scores.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sacrebleu.metrics.base import Metric, Score, Signature

from t2t_keras.errors import UserError
from t2t_keras.lab.comparison.systems import TranslatedText

_MODEL_IN_FOLDER = Path("checkpoints") / "model.ckpt"
_FIND = "import importlib.util, sys; sys.exit(importlib.util.find_spec('comet') is None)"
_SCRIPT = Path(__file__).with_name("comet_script.py")


class CometModel(NamedTuple):
    """What computes the scores.

    Attributes:
      path: the model's checkpoint, or the folder that has it as `checkpoints/model.ckpt`;
        `hparams.yaml` stands in that folder.
      python: of the environment that has unbabel-comet; "" = this one.
    """

    path: str | Path
    python: str | Path = ""

    def check(self) -> tuple[Path, str]:
        """Returns checkpoint and interpreter; raises `UserError` where one cannot be used."""
        found = Path(self.path)
        found = (found / _MODEL_IN_FOLDER if found.is_dir() else found).absolute()
        if not found.is_file() or not (found.parents[1] / "hparams.yaml").is_file():
            raise UserError(
                f"There is no COMET model in {self.path}: expected checkpoints/model.ckpt and "
                f"hparams.yaml in it. Models are not downloaded.",
                code="no_model",
            )
        python = str(self.python or sys.executable)
        try:
            missing = subprocess.run([python, "-I", "-c", _FIND], check=False).returncode
        except OSError as error:
            raise UserError(
                f"{python} cannot be started: {error.strerror}.", code="other_program_failed"
            ) from error
        if missing:
            raise UserError(
                f"COMET needs a package that {python} does not have: pip install unbabel-comet, in "
                f"an environment of its own, and give its Python as --comet_python.",
                code="missing_package",
            )
        return found, python


class Comet(Metric):
    """COMET as sacreBLEU's tests take a metric: the mean over the sentences.

    Raises `UserError` where the model cannot be loaded or fails.
    """

    class _SIGNATURE_TYPE(Signature):  # noqa: N801
        def __init__(self, args: dict[str, Any]) -> None:
            super().__init__(args)
            self.info |= {"model": args["model"], "comet": args["comet"]}
            self._abbr |= {"model": "model", "comet": "comet"}

    def __init__(self, model: CometModel, text: TranslatedText):
        super().__init__()
        path, python = model.check()
        systems = [system.translations for system in text.systems]
        found = _computed(path, python, text.sources, text.references, systems)
        self.num_refs, self.model, self.comet = 1, path.parents[1].name, found["version"]
        self._scores = dict(zip(map(tuple, systems), found["scores"], strict=True))

    def _extract_corpus_statistics(
        self, hypotheses: Sequence[str], references: object
    ) -> list[list[float]]:
        return [[score, 1.0] for score in self._scores[tuple(hypotheses)]]

    def _aggregate_and_compute(self, stats: list[list[float]]) -> Score:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])

    def _compute_score_from_stats(self, stats: list[float]) -> Score:
        total, count = map(float, stats)
        return Score("COMET", total / count)

    # Abstract in sacreBLEU, and only for statistics of single sentences.
    _preprocess_segment = _extract_reference_info = None  # type: ignore[assignment]
    _compute_segment_statistics = None  # type: ignore[assignment]


def _computed(
    model: Path,
    python: str,
    sources: Sequence[str],
    references: Sequence[str],
    systems: Sequence[Sequence[str]],
) -> dict[str, Any]:
    """Returns {"scores": [systems][sentences], "version": of the package}."""
    samples = [
        [
            {"src": source, "mt": line, "ref": reference}
            for source, line, reference in zip(sources, lines, references, strict=True)
        ]
        for lines in systems
    ]
    # The encoder's configuration and vocabulary are looked up by name: in the cache alone.
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "samples.json", Path(folder) / "scores.json"
        given.write_text(json.dumps(samples), "utf-8")
        done = subprocess.run(
            # Without this folder on its path, whose comet.py would be found for the package.
            [python, "-I", _SCRIPT, model, given, made],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            last = done.stderr.strip().rpartition("\n")[2] or "no message"
            raise UserError(
                f"COMET failed with {model}: {last} Nothing is downloaded: the encoder that the "
                f"model names must be in the cache of Hugging Face.",
                code="other_program_failed",
            )
        return json.loads(made.read_text("utf-8"))
