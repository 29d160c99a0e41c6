"""Models that OpenNMT-tf trained and saved (experiments/importing_models), as runs."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from refusals import refused

from t2t_keras.hyperparameters import HParams, override_hparams
from t2t_keras.interop.importers import opennmt_tf
from t2t_keras.interop.importers.opennmt_tf import read_opennmt_tf

FOLDER = Path(__file__).parent / "fixtures" / "opennmt_tf"
SHARED = FOLDER / "shared"


@pytest.mark.parametrize("kind", ["shared", "many"])
def test_answers(kind, import_run, check_answers, tmp_path):
    run = import_run(tmp_path / "run", "opennmt_tf", FOLDER / kind, FOLDER / f"{kind}.yml")

    def order_of(size):
        return [0, 2, size - 1, 1, *range(3, size - 1)]

    check_answers(run, FOLDER / kind, order_of, "max_length=100,extra_length=100")


@pytest.fixture
def described(tmp_path):
    """described(text): the hyperparameters of a model with such a description."""
    folder = tmp_path / "exp[1]"  # A pattern for TensorFlow.
    folder.mkdir()
    for file in SHARED.glob("*ckpt*"):
        shutil.copy(file, folder)
    shutil.copy(SHARED / "checkpoint", folder)

    def hparams(text, **changes):
        (folder / "model_description.py").write_text(text, encoding="utf-8")
        return read_opennmt_tf(folder, FOLDER / "shared.yml", changes).hparams

    return hparams


INIT = "def __init__(self): super().__init__({})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model = lambda: models.get_model_from_catalog('TransformerTiny')", (2, 0.1, 0.1, 0.1)),
        ("model = opennmt.models.ScalingNmtEnFr()", (16, 0.1, 0.0, 0.0)),
        ("model = opennmt.models.ScalingNmtEnDe()", (16, 0.3, 0.1, 0.0)),
        ("model = opennmt.models.TransformerBigSharedEmbeddings()", (16, 0.1, 0.1, 0.1)),
        ("model = lambda: onmt.models.Transformer(num_heads=4, dropout=0.3)", (4, 0.3, 0.1, 0.1)),
        (f"class M(a.Transformer):\n  {INIT.format('ffn_dropout=0')}", (8, 0.1, 0.1, 0)),
        (f"class M(a.TransformerBig):\n  {INIT.format('')}", (16, 0.1, 0.1, 0.1)),
        (
            f"Transformer(source=E(), num_heads=16)\nclass E(Embedder):\n  {INIT.format('n=2')}",
            (16, 0.1, 0.1, 0.1),
        ),
    ],
)
def test_what_a_description_says(described, text, expected):
    # It would fail if it were run: nothing is imported.
    actual = described(text)
    names = ("num_heads", "dropout", "attention_dropout", "relu_dropout")
    assert tuple(actual[name] for name in names) == expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("model = lambda: my_models.Own()", "num_heads"),
        ("model = lambda: opennmt.models.Transformer(num_heads=HEADS)", "num_heads"),
        ("model = lambda: opennmt.models.Transformer(None, None, 1, 16, 4)", "num_heads"),
        ("model = lambda: opennmt.models.Transformer(**SETTINGS)", "num_heads"),
        ("model = lambda: opennmt.models.Transformer(ffn_activation=tanh)", "activation"),
        ("Transformer()\nmodel = lambda: opennmt.models.TransformerBig()", "num_heads"),
    ],
)
def test_what_a_description_does_not_say_is_asked_for(described, text, name):
    with refused("missing_setting", f" {name}"):
        described(text)
    value = {"num_heads": 4, "activation": "tanh"}[name]
    dropouts = dict.fromkeys(("dropout", "attention_dropout", "relu_dropout"), 0.1)
    assert described(text, **{name: value}, **dropouts)[name] == value


def test_the_mean_of_a_run_is_described_in_the_run(tmp_path):
    """As `average-checkpoints` writes it, into a folder of the run's; its name has the steps."""
    run, mean = tmp_path / "run", tmp_path / "run" / "avg"
    shutil.copytree(SHARED, mean)
    (mean / "model_description.py").rename(run / "model_description.py")
    expected = read_opennmt_tf(SHARED, FOLDER / "shared.yml")
    for model in (mean, mean / "ckpt-300"):
        actual = read_opennmt_tf(model, FOLDER / "shared.yml")
        assert actual.hparams == expected.hparams
        assert actual.steps == expected.steps == 300
    (run / "model_description.py").unlink()
    with refused("missing_setting", "num_heads"):
        read_opennmt_tf(mean, FOLDER / "shared.yml")


def test_a_model_without_positions(monkeypatch):
    read = opennmt_tf._read_checkpoint

    def without_positions(path):
        prefix, (weights, names) = read(path)
        return prefix, (weights, {n: names[n] for n in names if "position_encoder" not in n})

    monkeypatch.setattr(opennmt_tf, "_read_checkpoint", without_positions)
    hparams = read_opennmt_tf(SHARED, FOLDER / "shared.yml").hparams
    assert override_hparams(HParams(), hparams).positions == "none"


def test_a_weight_without_counterpart_is_named(monkeypatch):
    read = opennmt_tf._read_checkpoint
    name = "model/encoder/layers/0/self_attention/layer/relative_position_keys"

    def with_relative_positions(path):
        prefix, (weights, names) = read(path)
        return prefix, (weights | {name: np.zeros((41, 4))}, names)

    monkeypatch.setattr(opennmt_tf, "_read_checkpoint", with_relative_positions)
    with refused("unknown_weight", name):
        read_opennmt_tf(SHARED, FOLDER / "shared.yml")


@pytest.mark.parametrize(
    ("changes", "code", "names"),
    [
        (
            {"source_sequence_controls": {"start": True}},
            "not_supported",
            ["source_sequence_controls", "start=true"],
        ),
        (
            {"source_sequence_controls": {"start": True, "end": True}},
            "not_supported",
            ["start=true"],
        ),
        (
            {"target_tokenization": {"mode": "aggressive"}},
            "not_supported",
            ["target_tokenization", "OpenNMTTokenizer"],
        ),
        ({"source_tokenization": None}, "not_supported", ["data.yml"]),
        (
            {"source_tokenization": "aggressive.yml"},
            "not_supported",
            ["source_tokenization", "OpenNMTTokenizer"],
        ),
        (
            {"source_tokenization": '{"mode": "char"}'},
            "not_supported",
            ["source_tokenization", "OpenNMTTokenizer"],
        ),
        (
            {"source_tokenization": "mode: char"},
            "not_supported",
            ["source_tokenization", "OpenNMTTokenizer"],
        ),
        (
            {"source_tokenization": {"mode": "aggressive", "sp_model_path": "spm.model"}},
            "not_supported",
            ["source_tokenization", "OpenNMTTokenizer"],
        ),
        ({"target_tokenization": None}, "not_supported", ["data.yml"]),
        ({"source_tokenization": "none.yml"}, "not_read", ["none.yml"]),
        (
            {"target_tokenization": {"type": "SentencePieceTokenizer", "params": None}},
            "not_supported",
            ["'SentencePieceTokenizer'"],
        ),
        (
            {"source_sequence_controls": True},
            "bad_configuration",
            ["source_sequence_controls", "True"],
        ),
        ({"source_vocabulary": "none.vocab"}, "not_read", ["none.vocab"]),
        ({"source_vocabulary": "spm.model"}, "not_utf8", ["spm.model"]),
    ],
)
def test_data_that_cannot_be_represented(changes, code, names, tmp_path):
    for name in ("joint.vocab", "spm.model"):
        shutil.copy(FOLDER / name, tmp_path)
    data = yaml.safe_load((FOLDER / "shared.yml").read_text(encoding="utf-8"))["data"]
    (tmp_path / "data.yml").write_text(yaml.safe_dump({"data": data | changes}), encoding="utf-8")
    (tmp_path / "aggressive.yml").write_text("mode: aggressive")
    with refused(code, *names):
        read_opennmt_tf(SHARED, tmp_path / "data.yml")


@pytest.mark.parametrize(
    "tokenization",
    [
        {"mode": "none", "sp_model_path": "spm.model"},
        {"type": "OpenNMTTokenizer", "params": {"mode": "none", "model": "spm.model"}},
        "tokenization.yml",
        "mode: none\nsp_model_path: spm.model",
    ],
)
def test_ways_to_name_the_sentencepiece_model(tokenization, tmp_path):
    for name in ("joint.vocab", "spm.model"):
        shutil.copy(FOLDER / name, tmp_path)
    settings = "{type: SentencePieceTokenizer, params: {model: spm.model}}"
    (tmp_path / "tokenization.yml").write_text(settings)
    data = yaml.safe_load((FOLDER / "shared.yml").read_text(encoding="utf-8"))["data"]
    data |= dict.fromkeys(("source_tokenization", "target_tokenization"), tokenization)
    (tmp_path / "data.yml").write_text(yaml.safe_dump({"data": data}), encoding="utf-8")
    actual, expected = (
        read_opennmt_tf(SHARED, path).tokenizer.vocabulary()
        for path in (tmp_path / "data.yml", FOLDER / "shared.yml")
    )
    assert actual == expected


def test_files_of_a_configuration_are_looked_for_here_and_not_elsewhere(tmp_path, monkeypatch):
    here, there, config = (tmp_path / name for name in ("here", "there", "config"))
    for folder in (here, there, config):
        folder.mkdir()
    data = yaml.safe_load((FOLDER / "shared.yml").read_text(encoding="utf-8"))["data"]
    names = {"source_vocabulary": "x/joint.vocab", "target_vocabulary": "x/joint.vocab"}
    (config / "data.yml").write_text(yaml.safe_dump({"data": data | names}), encoding="utf-8")
    (here / "x").mkdir()
    shutil.copy(FOLDER / "joint.vocab", here / "x")
    for folder in (here, there):
        shutil.copy(FOLDER / "spm.model", folder)
    monkeypatch.chdir(here)
    expected = read_opennmt_tf(SHARED, FOLDER / "shared.yml")
    actual = read_opennmt_tf(SHARED, config / "data.yml")
    assert actual.tokenizer.vocabulary() == expected.tokenizer.vocabulary()
    monkeypatch.chdir(there)
    with refused("not_read", "joint.vocab"):
        read_opennmt_tf(SHARED, config / "data.yml")
    names = dict.fromkeys(names, str(here / "x" / "joint.vocab"))
    (config / "data.yml").write_text(yaml.safe_dump({"data": data | names}), encoding="utf-8")
    with refused("outside_folder"):
        read_opennmt_tf(SHARED, config / "data.yml")
    # The run's folder goes first.
    for folder in (shutil.copytree(SHARED, tmp_path / "run"), config):
        shutil.copy(FOLDER / "joint.vocab", folder)
    (config / "joint.vocab").write_text("")
    names = dict.fromkeys(names, "joint.vocab")
    (config / "data.yml").write_text(yaml.safe_dump({"data": data | names}), encoding="utf-8")
    imported = read_opennmt_tf(tmp_path / "run", config / "data.yml")
    assert imported.tokenizer.vocabulary() == expected.tokenizer.vocabulary()


def test_another_vocabulary_is_named(tmp_path):
    lines = (FOLDER / "joint.vocab").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "other.vocab").write_text("".join(lines[:-1]), encoding="utf-8")
    vocabulary = f"{FOLDER / 'joint.vocab'},{tmp_path / 'other.vocab'},{FOLDER / 'spm.model'}"
    with refused("other_vocabulary", "other.vocab", f" {len(lines)} "):
        read_opennmt_tf(SHARED, vocabulary)
    (tmp_path / "other.vocab").write_text("".join(["<unk>\n", *lines[1:]]), encoding="utf-8")
    with refused("not_a_vocabulary", "other.vocab", "<blank>, <s>, </s>", "'<unk>, <s>, </s>'"):
        read_opennmt_tf(SHARED, vocabulary)


def test_no_checkpoint(tmp_path):
    with refused("not_read", tmp_path / "checkpoint"):
        read_opennmt_tf(tmp_path, FOLDER / "shared.yml")
