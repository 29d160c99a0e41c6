"""Describes a path that was given instead of a run."""

from pathlib import Path

from t2t_keras.errors import nearest

_RUN = "run.json"
_CHECKPOINT = ".safetensors"
_SAVED_MODEL = (
    "a SavedModel: t2t_keras.load_export reads it from Python, and TensorFlow Serving serves it to "
    "t2t-query-server. Commands read the run that it was exported from"
)
# By a file in the folder; the first match counts.
_KINDS = {
    "t2t_keras.json": "an export for CTranslate2: t2t-decoder, t2t-translate-file and t2t-filter "
    "read it with --engine=ctranslate2, and t2t-serve reads it as it is",
    "saved_model.pb": _SAVED_MODEL,
    "task.json": "an export for KerasHub. Commands read the run that it was exported from",
    "model.onnx": "an export for ONNX Runtime. Commands read the run that it was exported from",
    "model.tflite": "an export for LiteRT. Commands read the run that it was exported from",
    "manifest.json": "generated data: give its parent folder as --data_dir",
}
_EXPECTED = "Expected the folder that t2t-trainer, t2t-avg-all or t2t-import wrote."


def not_a_run(path: str | Path) -> str:
    """Says what a path is if it is not a run, and what to give instead."""
    path = Path(path)
    if not path.is_dir():
        if path.with_name(f"{path.name}{_CHECKPOINT}").exists() or path.suffix == _CHECKPOINT:
            return (
                f"{path} is a checkpoint: give its folder, {path.parent}, as the run, and {path} "
                f"as --checkpoint_path."
            )
        what = "a file" if path.exists() else "not there"
        near = nearest(path.name, _runs_in(path.parent)) if not path.exists() else ""
        return f"{path} is {what}.{near} {_EXPECTED}"
    newest = [path, *(child for child in path.iterdir() if child.name.isdecimal())]
    for folder in newest:
        for name, kind in _KINDS.items():
            if (folder / name).is_file():
                return f"{path} is {kind}."
    if runs := _runs_in(path):
        shown = ", ".join(str(path / name) for name in runs[:5])
        return f"{path} is not a run, but contains runs: give one of them, such as {shown}."
    return f"{path} is not a run: it has no {_RUN}. {_EXPECTED}"


def _runs_in(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(child.name for child in folder.iterdir() if (child / _RUN).is_file())
