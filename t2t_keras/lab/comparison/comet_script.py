"""Computes COMET's scores in an environment with unbabel-comet; imports nothing of t2t_keras.

python comet_script.py MODEL SAMPLES SCORES: a checkpoint, lists of samples, and the file to write.
"""

import json
import sys
from importlib import metadata
from pathlib import Path


def main(model_path: str, samples_file: str, scores_file: str) -> None:
    """Writes {"scores": a list for each list of samples, "version": the package's}."""
    import torch
    from comet import load_from_checkpoint

    model = load_from_checkpoint(model_path, local_files_only=True)
    gpus = min(torch.cuda.device_count(), 1)
    scores = [
        [float(score) for score in model.predict(samples, gpus=gpus, progress_bar=False).scores]
        for samples in json.loads(Path(samples_file).read_text("utf-8"))
    ]
    content = {"scores": scores, "version": metadata.version("unbabel-comet")}
    Path(scores_file).write_text(json.dumps(content), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
