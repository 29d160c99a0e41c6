"""Are models that fairseq trains the same here? Trains them with fairseq on Multi30k, and compares.

    python experiments/importing_models/from_fairseq.py --work_dir=/tmp/fairseq_door

prints a row for each kind of model. The first is trained for some minutes on one core, the others
for a few steps. What is in --work_dir already is not done again.
"""

from pathlib import Path

import comparing
from absl import app, flags

from t2t_keras.data.problem import make_problem

_WORK_DIR = flags.DEFINE_string("work_dir", "/tmp/fairseq_door", "Folder for all that is made.")
_PEERS = flags.DEFINE_string("peers", "build/peers", "Folder of fairseq's environment.")
_MINUTES = flags.DEFINE_float("minutes", 5, "Most minutes that the first model is trained.")
_FIRST = flags.DEFINE_integer("first_steps", 10_000, "Most steps of the first model.")
_STEPS = flags.DEFINE_integer("steps", 20, "Steps of the others.")

_EXTRA_LENGTH = 50
_SHARED = "--share-all-embeddings"
_PRE_NORM = ["--encoder-normalize-before", "--decoder-normalize-before"]
_LEARNED = [
    *("--encoder-learned-pos", "--max-source-positions=100"),
    *("--decoder-learned-pos", "--max-target-positions=120"),
]
_TIED = "--share-decoder-input-output-embed"
# By kind: the data, and what differs from post-norm layers with sinusoids.
_KINDS = {
    "shared": ("joined", [_SHARED]),
    "separate": ("separate", []),
    "tied softmax, learned positions": ("separate", [_TIED, *_LEARNED]),
    "pre-norm": ("joined", [_SHARED, *_PRE_NORM]),
    "gelu, embedding norm": ("joined", ["--activation-fn=gelu", "--layernorm-embedding"]),
    "many": (
        "separate",
        [
            *(_TIED, *_LEARNED, *_PRE_NORM, "--layernorm-embedding", "--no-scale-embedding"),
            *("--activation-fn=gelu_accurate", "--encoder-layers=1", "--decoder-layers=2"),
        ],
    ),
}
_ARGUMENTS = [
    *("--arch=transformer", "--source-lang=en", "--target-lang=de"),
    *("--encoder-attention-heads=4", "--decoder-attention-heads=4"),
    *("--optimizer=adam", "--adam-betas=(0.9, 0.98)", "--lr=0.005", "--warmup-updates=300"),
    *("--lr-scheduler=inverse_sqrt", "--criterion=label_smoothed_cross_entropy"),
    *("--label-smoothing=0.1", "--dropout=0.1", "--max-tokens=2048", "--cpu", "--num-workers=0"),
    *("--no-epoch-checkpoints", "--disable-validation", "--no-save-optimizer-state"),
]


def main(_) -> None:
    """Trains, imports and compares."""
    work = Path(_WORK_DIR.value)
    work.mkdir(parents=True, exist_ok=True)
    _prepare(work)
    print(comparing.HEADER)
    for number, kind in comparing.chosen(_KINDS):
        data, arguments = _KINDS[kind]
        folder = work / f"model_{number}"
        if not folder.exists():
            steps = _STEPS.value if number else _FIRST.value
            limits = [f"--max-update={steps}", f"--stop-time-hours={_MINUTES.value / 60}"]
            width, layers = comparing.sizes()
            sizes = {"embed-dim": width, "ffn-embed-dim": 2 * width, "layers": layers}
            sizes = [
                f"--{side}-{name}={size}"
                for side in ("encoder", "decoder")
                for name, size in sizes.items()
            ]
            save = f"--save-dir={folder}"
            _fairseq("train", work / data, save, *_ARGUMENTS, *sizes, *arguments, *limits)
        print(_compared(kind, work, data, folder), flush=True)


def _fairseq(*arguments: str | Path) -> str:
    log = Path(_WORK_DIR.value) / "log.txt"
    return comparing.run_toolkit(_PEERS.value, "fairseq", "with_fairseq.py", *arguments, log=log)


def _prepare(work: Path) -> None:
    """Makes a SentencePiece model, and fairseq's data of its pieces."""
    if (work / "joined").exists():
        return
    texts = comparing.segment_training_text(work)
    for code, lines in texts.items():
        comparing.write(work / f"train.{code}", lines)
        # fairseq wants some to be there, even if it does not validate.
        comparing.write(work / f"valid.{code}", lines[:10])
    prefixes = [f"--{split}pref={work / split}" for split in ("train", "valid")]
    common = ["--source-lang=en", "--target-lang=de", *prefixes]
    _fairseq("preprocess", *common, f"--destdir={work / 'separate'}")
    _fairseq("preprocess", *common, f"--destdir={work / 'joined'}", "--joined-dictionary")


def _compared(kind: str, work: Path, data: str, folder: Path) -> str:
    from t2t_keras.interop.importers.imported import make_run, read_model

    checkpoint, run, answers = folder / "checkpoint_last.pt", folder / "run", folder / "answers.npz"
    lines, segmented = comparing.lines(), work / "lines.en"
    comparing.write(segmented, comparing.segmented(work, lines))
    limits = str(_EXTRA_LENGTH), comparing.lines_with_logits()
    version = _fairseq("answer", checkpoint, work / data, segmented, *limits, answers)
    if not run.exists():
        problem = make_problem("parallel_text", "source_language=en,target_language=de")
        vocabulary = f"{work / data},{work / 'spm.model'}"
        model = read_model("fairseq", checkpoint, problem.languages(), vocabulary)
        make_run(model, problem, run, str(checkpoint))
    size = len((work / data / "dict.de.txt").read_text(encoding="utf-8").split("\n")) + 3
    return comparing.compare(
        kind,
        f"fairseq {version.split()[-1]}",
        run,
        lines,
        answers,
        [1, 2, 3, 0, *range(4, size)],
        f"min_length=2,extra_length={_EXTRA_LENGTH}",
    )


if __name__ == "__main__":
    app.run(main)
