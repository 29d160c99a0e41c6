"""Are models that OpenNMT-tf trains the same here? Trains them on Multi30k, and compares.

    python experiments/importing_models/from_opennmt_tf.py --work_dir=/tmp/opennmt_tf_door

prints a row for each kind of model. The first is trained for some minutes on one core, the others
for a few steps. What is in --work_dir already is not done again.
"""

from pathlib import Path

import comparing
import sentencepiece
import yaml
from absl import app, flags

from t2t_keras.data.problem import make_problem

_WORK_DIR = flags.DEFINE_string("work_dir", "/tmp/opennmt_tf_door", "Folder for all that is made.")
_PEERS = flags.DEFINE_string("peers", "build/peers", "Folder of OpenNMT-tf's environment.")
_FIRST = flags.DEFINE_integer("first_steps", 1000, "Steps of the first model.")
_STEPS = flags.DEFINE_integer("steps", 20, "Steps of the others.")

_MAX_LENGTH = 100
_SHARED = "share_embeddings=opennmt.models.EmbeddingsSharingLevel."
# By kind: arguments of the model, and whether the source has its end.
_KINDS = {
    "shared": ([_SHARED + "ALL"], False),
    "separate, without biases": (["mha_bias=False", "output_layer_bias=False"], False),
    "post-norm, shared inputs, source with end": (
        ["pre_norm=False", _SHARED + "SOURCE_TARGET_INPUT"],
        True,
    ),
    "many": (
        [
            *("num_layers=(1, 2)", "mha_bias=False", "pre_norm=False", _SHARED + "TARGET"),
            "position_encoder_class=opennmt.layers.PositionEmbedder",
            "ffn_activation=opennmt.layers.gelu",
        ],
        True,
    ),
}


def main(_) -> None:
    """Trains, imports and compares."""
    work = Path(_WORK_DIR.value).resolve()
    work.mkdir(parents=True, exist_ok=True)
    _prepare(work)
    print(comparing.HEADER)
    for number, kind in comparing.chosen(_KINDS):
        arguments, end = _KINDS[kind]
        folder = work / f"model_{number}"
        if not folder.exists():
            folder.mkdir()
            steps = _STEPS.value if number else _FIRST.value
            _write_training(folder, work, arguments, end, steps)
            config, model = folder / "data.yml", folder / "model.py"
            _opennmt_tf("main", "--config", config, "--model", model, "train")
        print(_compared(kind, work, folder), flush=True)


def _opennmt_tf(*arguments: str | Path) -> str:
    log = Path(_WORK_DIR.value) / "log.txt"
    return comparing.run_toolkit(
        _PEERS.value, "opennmt_tf", "with_opennmt_tf.py", *arguments, log=log
    )


def _prepare(work: Path) -> None:
    """Makes a SentencePiece model, and OpenNMT-tf's vocabulary of its pieces."""
    if (work / "joint.vocab").exists():
        return
    comparing.segment_training_text(work)
    model = sentencepiece.SentencePieceProcessor(model_file=str(work / "spm.model"))
    pieces = [model.id_to_piece(i) for i in range(3, model.get_piece_size())]
    comparing.write(work / "joint.vocab", ["<blank>", "<s>", "</s>", *pieces])


def _write_training(folder: Path, work: Path, arguments: list[str], end: bool, steps: int) -> None:
    """Writes what OpenNMT-tf trains with."""
    tokenization = {"type": "SentencePieceTokenizer", "params": {"model": str(work / "spm.model")}}
    config = {
        "model_dir": str(folder / "trained"),
        "data": {
            "train_features_file": str(comparing.multi30k() / "train.en"),
            "train_labels_file": str(comparing.multi30k() / "train.de"),
            "source_vocabulary": str(work / "joint.vocab"),
            "target_vocabulary": str(work / "joint.vocab"),
            "source_tokenization": tokenization,
            "target_tokenization": tokenization,
            "source_sequence_controls": {"end": end},
        },
        "params": {"optimizer": "Adam", "learning_rate": 0.003, "label_smoothing": 0.1},
        "train": {
            "batch_size": 2048,
            "batch_type": "tokens",
            "effective_batch_size": None,
            "max_step": steps,
            "save_checkpoints_steps": steps,
            "maximum_features_length": 60,
            "maximum_labels_length": 60,
            "sample_buffer_size": 30_000,
        },
    }
    (folder / "data.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    width, layers = comparing.sizes()
    sizes = {"num_units": width, "num_heads": 4, "ffn_inner_dim": 2 * width, "num_layers": layers}
    sizes = [f"{name}={size}" for name, size in sizes.items() if name not in "".join(arguments)]
    model = ["import opennmt", "", "", "def model():", "    return opennmt.models.Transformer("]
    model += [f"        {argument}," for argument in (*sizes, *arguments)]
    comparing.write(folder / "model.py", [*model, "    )"])


def _compared(kind: str, work: Path, folder: Path) -> str:
    from t2t_keras.interop.importers.imported import make_run, read_model

    run, answers, source = folder / "run", folder / "answers.npz", work / "lines.en"
    lines, config = comparing.lines(), folder / "data.yml"
    comparing.write(source, lines)
    limits = str(_MAX_LENGTH), comparing.lines_with_logits()
    version = _opennmt_tf("answer", config, source, *limits, answers)
    if not run.exists():
        problem = make_problem("parallel_text", "source_language=en,target_language=de")
        model = read_model("opennmt_tf", folder / "trained", problem.languages(), config)
        make_run(model, problem, run, str(folder))
    size = len((work / "joint.vocab").read_text(encoding="utf-8").split("\n"))
    return comparing.compare(
        kind,
        f"OpenNMT-tf {version.split()[-1]}",
        run,
        lines,
        answers,
        [0, 2, size - 1, 1, *range(3, size - 1)],
        f"max_length={_MAX_LENGTH},extra_length={_MAX_LENGTH}",
    )


if __name__ == "__main__":
    app.run(main)
