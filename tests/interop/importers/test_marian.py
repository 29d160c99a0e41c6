"""Models of Marian as runs, as transformers computes them (experiments/importing_models)."""

import dataclasses
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from refusals import refused
from safetensors.numpy import save_file
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.decoding.translator import Translator
from t2t_keras.experiment import train
from t2t_keras.interop.bin import t2t_import
from t2t_keras.interop.importers.files import read_weights
from t2t_keras.interop.importers.imported import make_run, read_model
from t2t_keras.interop.importers.marian import read_huggingface, read_marian, read_vocabulary
from t2t_keras.interop.importers.weights import (
    IdOrder,
    lookup_tokenizer,
    pieces_by_id,
    reordered_embeddings,
)
from t2t_keras.layers.embedding import sinusoids
from t2t_keras.serving.signatures import TranslationModule
from t2t_keras.text.tokenizer import SentencePieceTokenizer

FIXTURES = Path(__file__).parent / "fixtures"
SHARED, SEPARATE = FIXTURES / "marian_shared", FIXTURES / "marian_separate"
TRAINED = FIXTURES / "marian_trained"
MODELS = (SHARED, SEPARATE, SHARED / "model.npz", SEPARATE / "model.npz")
LANGUAGES = "source_language=en,target_language=de"
# Transformers' language code is one unknown piece to a model that has no such code.
CODED = 1


class Run:
    """A model as a run, with what transformers computed, in our ids."""

    def __init__(self, model, folder):
        self.path = folder
        flags = {"from": "marian", "model": model, "output_dir": folder}
        flags |= {"problem": "parallel_text", "problem_config": LANGUAGES}
        t2t_import.run(["t2t-import", *(f"--{flag}={value}" for flag, value in flags.items())])
        npz, home = model.suffix == ".npz", model.parent if model.suffix else model
        self.expected = np.load(home / "expected.npz")
        # Marian's own wavelengths and epsilon differ from those of transformers.
        self.computed = {
            name: self.expected["marian_" * npz + name] for name in ("logits", "greedy", "beam")
        }
        self.translator = self.with_settings("beam_size=1")
        tokenizer, files = self.translator.tokenizer, ["vocab.json", "target_vocab.json"]
        files = files if home == SEPARATE else files[:1]
        self.source, self.target = (
            self._table(home / file, side)
            for file, side in ((files[0], tokenizer.source), (files[-1], tokenizer))
        )

    @staticmethod
    def _table(file, tokenizer):
        """Returns our id for each of theirs, the last of which is padding."""
        theirs, ours = json.loads(file.read_text(encoding="utf-8")), tokenizer.vocabulary()
        ours |= {piece[1:]: i for piece, i in ours.items() if piece.endswith("<<")}
        return np.array([ours[piece] for piece in theirs], np.int32)

    def with_settings(self, settings):
        # As experiments/importing_models/make_marian.py lets transformers search.
        fixed = "alpha=0,max_length=24,extra_length=100"
        return Translator.from_run(self.path, decode_hparams=f"{fixed},{settings}")

    @property
    def lines(self):
        return self.expected["lines"].tolist()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """runs[model]: the `Run` of each of MODELS."""
    folder = tmp_path_factory.mktemp("runs")
    return {model: Run(model, folder / str(i)) for i, model in enumerate(MODELS)}


@pytest.fixture
def copied(tmp_path):
    """copied(folder): a copy that may be changed."""
    return lambda folder: Path(shutil.copytree(folder, tmp_path / folder.name))


def trimmed(row):
    return [int(i) for i in row if i]


@pytest.mark.parametrize("model", MODELS)
def test_ids_of_text(runs, model):
    run, tokenizer = runs[model], runs[model].translator.tokenizer
    lines, ids = run.lines, [trimmed(row) for row in run.source[run.expected["ids"]]]
    if SEPARATE in (model, model.parent):
        del lines[CODED], ids[CODED]
    assert [row.tolist() for row in tokenizer.source.encode(lines)] == ids
    graph = tokenizer.source.graph_tokenizer()
    assert graph.tokenize(tf.constant(lines)).to_list() == ids
    target = [trimmed(row) for row in run.target[run.computed["greedy"]]]
    texts = tokenizer.decode(target)
    padded = tf.ragged.constant(target).to_tensor()
    assert [
        text.decode() for text in tokenizer.graph_tokenizer().detokenize(padded).numpy()
    ] == texts
    if model.suffix != ".npz":
        assert [text.strip() for text in texts] == run.expected["text"].tolist()


@pytest.mark.parametrize("model", MODELS)
def test_logits(runs, model):
    run = runs[model]
    source, target = (
        getattr(run, side)[run.expected[f"{side}_ids"]] for side in ("source", "target")
    )
    logits = run.translator.models[0]({"source": source, "target": target}).numpy()
    tokens, ids = target != 0, run.target[:-1]
    expected = run.computed["logits"][tokens][:, :-1]
    np.testing.assert_allclose(logits[tokens][:, ids], expected, rtol=0, atol=1e-4)
    assert tf.nn.softmax(logits)[..., 0].numpy().max() < 1e-30  # Padding is never written.


@pytest.mark.parametrize("model", [SHARED, SEPARATE])
@pytest.mark.parametrize(("kind", "size"), [("greedy", 1), ("beam", 4)])
def test_translations(runs, model, kind, size):
    run = runs[model]
    translator = run.translator if kind == "greedy" else run.with_settings(f"beam_size={size}")
    outputs = translator.search(run.source[run.expected["ids"]])
    expected = run.target[run.computed[kind]]
    assert [trimmed(row) for row in outputs.ids[:, 0].numpy()] == [trimmed(row) for row in expected]


def test_an_export_of_two_vocabularies_translates_alike(runs, tmp_path):
    run = runs[SEPARATE]
    module = TranslationModule(run.translator)
    signature = module.signatures()["serving_default"]
    tf.saved_model.save(module, tmp_path, {"serving_default": signature})
    signature = tf.saved_model.load(tmp_path).signatures["serving_default"]
    actual = signature(text=tf.constant(run.lines))["translation"].numpy()
    expected = run.translator.translate(run.lines)
    assert [text.decode() for text in actual] == [translation.text for translation in expected]


@pytest.mark.usefixtures("eagerly")
def test_training_goes_on(runs, tmp_path):
    run, (source, target) = runs[SHARED], ("A dog sleeps.", "Ein Hund schläft.")
    for split in ("train", "dev"):
        (tmp_path / f"{split}.en").write_text(f"{source}\n" * 20)
        (tmp_path / f"{split}.de").write_text(f"{target}\n" * 20)
    files = f"vocab_file={run.path}/vocab.pieces,source_vocab_file={run.path}/vocab.source.pieces"
    problem = make_problem("parallel_text", f"{LANGUAGES},{files},shared_vocabulary=false")
    generate(problem, tmp_path / "data", tmp_path)
    before = run.translator.score([source], [target])[0].log_prob
    options = dict(warm_start_from=str(run.path), train_steps=3)
    train(problem, "auto", tmp_path / "data", tmp_path / "tuned", **options)
    after = Translator.from_run(tmp_path / "tuned").score([source], [target])[0].log_prob
    assert before < after < 0.2 * before


def test_both_forms_of_the_weights_are_the_same(copied):
    folder = copied(SHARED)
    (folder / "model.safetensors").unlink()
    actual, expected = (read_huggingface(directory).weights for directory in (folder, SHARED))
    assert actual.keys() == expected.keys()
    assert all(np.array_equal(actual[name], expected[name]) for name in expected)


def test_a_vocabulary_of_another_model_is_refused(copied):
    folder = copied(SHARED)
    shutil.copy(SEPARATE / "vocab.json", folder)
    with refused("other_vocabulary", "vocab.json", " 140 ", " 81 "):
        read_huggingface(folder)
    content = (SHARED / "vocab.json").read_text(encoding="utf-8")
    (folder / "vocab.json").write_text(content.replace('"<unk>"', '"<unknown>"'), encoding="utf-8")
    with refused("other_vocabulary", " 140 ", " 0, None ", " 139."):
        read_huggingface(folder)
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"decoder_start_token_id": 0}))
    shutil.copy(SHARED / "vocab.json", folder)
    with refused("not_supported", "config.json: decoder_start_token_id=0"):
        read_huggingface(folder)
    with refused("bad_value", "model.npz", " 3."):
        read_marian(folder / "model.npz", "a.yml,b.yml,c.yml")


def test_a_folder_has_one_model_beside_the_state_of_its_training(copied):
    folder = copied(SHARED)
    (folder / "config.json").unlink()
    shutil.copy(folder / "model.npz", folder / "model.npz.optimizer.npz")
    (folder / "expected.npz").unlink()
    actual = read_model("marian", folder, ("en", "de"), changes={"num_heads": 4})
    assert (actual.hparams["num_heads"], actual.hparams["d_model"]) == (4, 16)
    shutil.copy(folder / "model.npz", folder / "other.npz")
    with refused("ambiguous_files", ".npz", " 2."):
        read_model("marian", folder, ("en", "de"))


@pytest.mark.parametrize(
    ("toolkit", "options", "named"),
    [
        ("marian", {"target_space": 0}, "target_space"),
        ("marian", {"vocabulary": "a.spm"}, "a.spm"),
        ("huggingface", {"vocabulary": "a.spm"}, "a.spm"),
    ],
)
def test_what_a_reader_does_not_take_is_refused(toolkit, options, named):
    with refused("bad_flags", named):
        read_model(toolkit, SHARED, ("en", "de"), **options)


def test_settings_that_are_left_out_are_those_of_transformers(copied):
    folder = copied(SHARED)
    (folder / "config.json").write_text(
        """{"encoder_layers": 2, "decoder_layers": 1, "d_model": 16, "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
        "activation_function": "swish", "decoder_start_token_id": 139, "pad_token_id": 139,
        "eos_token_id": 0}"""
    )
    (folder / "pytorch_model.bin").write_bytes(b"")  # The other file comes first.
    scaling = {"scale_embedding": False}
    assert read_huggingface(folder).hparams == read_huggingface(SHARED).hparams | scaling


@pytest.mark.parametrize(("error", "is_refused"), [(9e-4, False), (2e-3, True)])
def test_positions_are_refused_where_they_are_trained(copied, error, is_refused):
    """Published models have sinusoids, rounded to float16."""
    folder, name = copied(SHARED), "model.encoder.embed_positions.weight"
    arrays = dict(read_weights(SHARED, "model.safetensors"))
    arrays[name] = sinusoids(np.arange(64), 16, "concatenated").numpy() + np.float32(error)
    save_file(arrays, folder / "model.safetensors")
    if is_refused:
        with refused("not_supported", name):
            read_huggingface(folder)
    else:
        assert read_huggingface(folder).weights.keys() == read_huggingface(SHARED).weights.keys()


@pytest.fixture
def changed(copied):
    """changed(options, arrays): the path of a model with changed options and added arrays."""

    def changed(options, **added):
        path = copied(SHARED) / "model.npz"
        arrays = dict(np.load(path))
        known = json.loads(arrays["special:model.yml"].tobytes()[:-1])
        content = json.dumps(known | options).encode() + b"\0"
        arrays["special:model.yml"] = np.frombuffer(content, np.int8)
        np.savez(path, **arrays, **added)
        return path

    return changed


def test_options_that_change_nothing_and_names_of_norms_before_sublayers(changed):
    options = {"decoder-dim-ffn": 0, "decoder-ffn-depth": 2, "tied-layers": None}
    options |= {"postprocess-emb": "", "attention-mask": "default"}
    options = {f"transformer-{name}": value for name, value in options.items()}
    path, expected = changed(options | {"input-types": ["sequence"] * 2}), read_marian(MODELS[2])
    arrays = dict(np.load(path))
    np.savez(path, **{f"{name}{'_pre' * ('_ln_' in name)}": arrays[name] for name in arrays})
    # The record of the model's name comes first.
    (path.parent / "decoder.yml").rename(path.parent / "model.npz.decoder.yml")
    (path.parent / "decoder.yml").write_text("vocabs: 5")
    actual = read_marian(path)
    assert actual.hparams == expected.hparams
    assert actual.weights.keys() == expected.weights.keys()
    other = path.parent / "other.spm"
    shutil.copy(FIXTURES / "fairseq" / "spm.model", other)
    with refused("other_vocabulary", "other.spm"):  # Those beside it are.
        read_marian(path, f"{path.parent / 'opus.vocab.yml'}, {other}")


@pytest.mark.parametrize(
    ("added", "code", "named"),
    [
        ({"decoder_l1_rnn_W": np.ones(2, np.float32)}, "unknown_weight", "decoder_l1_rnn_W"),
        ({"encoder_l1_self_Wq_QuantMultA": np.ones(2, np.int8)}, "not_supported", "int8"),
        ({"special:code": np.array([print])}, "not_a_checkpoint", "allow_pickle=False"),
    ],
)
def test_parameters_that_cannot_be_represented_are_refused(changed, added, code, named):
    with refused(code, named):
        read_marian(changed({}, **added))


@pytest.mark.parametrize(
    ("kernel", "more", "names"),
    [
        (None, {}, ["query/kernel"]),
        (
            np.ones((16, 8), np.float32),
            {},
            ["query/kernel", "[16, 8]", "[16, 16]"],
        ),
        (None, {"encoder_0/z": np.ones(1)}, ["query/kernel", "1 more"]),
        (None, {"a": np.ones(1), "z": np.ones(1)}, ["query/kernel", "2 more"]),
        (np.ones((16, 16), np.float32), {"z": np.ones(1), "a": np.ones(1)}, ["/a ", "1 more"]),
    ],
)
def test_weights_that_are_not_those_of_the_model(changed, tmp_path, kernel, more, names):
    actual = read_marian(changed({}))
    weights = {**actual.weights, "encoder_0/self_attention/query/kernel": kernel, **more}
    weights = {name: value for name, value in weights.items() if value is not None}
    problem = make_problem("parallel_text", LANGUAGES)
    with refused("other_model", *names):
        make_run(dataclasses.replace(actual, weights=weights), problem, tmp_path / "run", "it")
    assert not (tmp_path / "run").exists()


def test_norms_of_embeddings_and_before_sublayers(changed, tmp_path):
    names = [f"{side}_{part}" for side in ("encoder", "decoder") for part in ("emb", "top")]
    added = {f"{name}_ln_scale{'_pre' * ('emb' in name)}": np.full((1, 16), 2.0) for name in names}
    added |= {name.replace("scale", "bias"): np.full((1, 16), 3.0) for name in added}
    options = {"preprocess": "n", "postprocess": "da", "postprocess-top": "n"}
    options = {f"transformer-{name}": value for name, value in options.items()}
    actual = read_marian(changed(options | {"transformer-postprocess-emb": "nd"}, **added))
    make_run(actual, make_problem("parallel_text", LANGUAGES), tmp_path / "run", "it")
    for name in ("encoder_norm", "decoder_norm", "source_norm", "target_norm"):
        assert actual.weights[f"{name}/gamma"].tolist() == [2.0] * 16
        assert actual.weights[f"{name}/beta"].tolist() == [3.0] * 16


def test_vocabularies_in_yaml(tmp_path):
    file, breaks = tmp_path / "vocab.yml", "\x01\x7f\x80\u2028\ufeff\ufffe"
    file.write_text(
        f'</s>: 0\n<unk>: 1\nyes: 2\n1.0: 3\n"\\"": 4\n"\\x85": 5\n? ":"\n: 6\n'
        f'"{breaks}": 7\n"a\x85": 8\n',
        encoding="utf-8",
    )
    pieces = ["</s>", "<unk>", "yes", "1.0", '"', "\x85", ":", breaks, "a\x85"]
    assert read_vocabulary(file, 9) == IdOrder(pieces, end=0, unknown=1)
    assert read_vocabulary(file, 4).pieces == pieces[:4]
    with refused("other_vocabulary", " 10 ", " 9."):
        read_vocabulary(file, 10)
    text = tmp_path / "vocab.txt"
    file.write_text("eos: 0\nUNK: 1\na: 2\n")  # As Nematus has them.
    assert read_vocabulary(file, 3) == IdOrder(["eos", "UNK", "a"], end=0, unknown=1)
    file.write_text("</s>: 0\na: 1\n")
    with refused("other_vocabulary", "</s>", "<unk>"):
        read_vocabulary(file, 2)
    text.write_text("a\n</s>\n<unk>\n")
    assert read_vocabulary(text, 3) == IdOrder(["a", "</s>", "<unk>"], end=1, unknown=2)
    file = tmp_path / "vocab.json"
    file.write_text('{"</s>": 0, "a": 2, "<unk>": 1}')
    assert read_vocabulary(file, 3) == IdOrder(["</s>", "<unk>", "a"], end=0, unknown=1)
    for ids in ({"a": 0, "b": 2}, {"a": 0, "b": 0}, {"\ud800": 0}, {"a": []}, {"a": math.inf}):
        with refused("not_a_vocabulary", "it: "):
            pieces_by_id(ids, "it")


@pytest.mark.parametrize(
    ("target", "projection", "same_pieces", "share"),
    [
        (1, 1, True, "all"),
        (1, 2, True, "input"),
        (1, 1, False, "target"),  # What is equal by chance stands for other pieces.
        (2, 2, True, "target"),
        (2, 1, True, "none"),
        (1, 2, False, "none"),
    ],
)
def test_tables_that_are_equal_are_shared(target, projection, same_pieces, share):
    tables = [np.full((3, 2), number) for number in (1, target, projection)]
    orders = 2 * [IdOrder(["</s>", "<unk>", "a"], 0, 1)]
    name, actual = reordered_embeddings(orders, *tables, None, same_pieces)
    assert name == share
    assert ("source_embedding/table/embeddings" in actual) == (share in ("target", "none"))
    assert any("reverse" in name for name in actual) == (share in ("input", "none"))


@pytest.mark.parametrize("start", [False, True])
def test_ids_of_another_toolkit_in_our_order(start):
    order = IdOrder(["a", "<pad>", "b", "<unk>", "</s>"], 4, 3, padding=1, has_start=start)
    assert order.our_pieces == ["<pad>", "</s>", "<unk>", "a", "b", *["<start>"] * start]
    rows = [[0.0], [5.0], [4.0], [1.0], [3.0], *[[2.0]] * start]
    assert order.rows(np.array([[1.0], [2.0], [3.0], [4.0], [5.0]])).tolist() == rows
    # Padding and the start are never written.
    bias = [-100.0, 5.0, 4.0, 1.0, 3.0, *[-100.0] * start]
    assert order.bias(np.array([1.0, 2.0, 3.0, 4.0, 5.0])).tolist() == bias


@pytest.mark.parametrize(
    ("file", "read"),
    [
        ("decoder.yml", lambda file: read_vocabulary(file, 9)),
        ("vocab.json", lambda file: read_huggingface(file.parent)),
    ],
)
def test_files_that_are_no_vocabulary(copied, file, read):
    path = copied(SHARED) / file
    path.write_text('{"model": {"type": "BPE"}, "other": []}')
    with refused("not_a_vocabulary", file):
        read(path)


@pytest.mark.parametrize(("same", "num_others", "is_refused"), [(3, 1, False), (2, 1, True)])
def test_a_model_has_three_of_four_pieces_of_its_list(same, num_others, is_refused):
    model = SentencePieceTokenizer.train(["low lower lowest newer newest wider widest"] * 9, 290)
    known = [piece for piece in model.vocabulary() if len(piece) > 1 and piece[0] != "<"]
    pieces = [
        "<pad>",
        "</s>",
        "<unk>",
        "a",
        *known[:same],
        *(f"of another {i}" for i in range(num_others)),
    ]
    if is_refused:
        with refused("other_vocabulary", f" {same + num_others},", f" {same} are"):
            lookup_tokenizer(model.model_bytes, pieces, "it")
    else:
        assert lookup_tokenizer(model.model_bytes, pieces, "it").vocab_size == len(pieces)


def test_words_that_a_model_calls_unknown_or_that_look_like_a_language():
    proto = ModelProto.FromString(SentencePieceTokenizer.train(["low lower"] * 9, 265).model_bytes)
    proto.pieces[2].piece = proto.trainer_spec.unk_piece = "[UNK]"
    pieces = ["<pad>", "</s>", "<unk>", "[UNK]", ">>", ">>fra<<", "</s>"]
    pieces += [piece.piece for piece in proto.pieces[3:]]
    actual = lookup_tokenizer(proto.SerializeToString(), pieces, "it").vocabulary()
    assert (actual["[UNK]"], actual[">>"], actual["\u2581>>fra<<"], actual["</s>#6"]) == (
        3,
        4,
        5,
        6,
    )


def test_vocabularies_of_sentencepiece():
    file, lines = SHARED / "source.spm", ["The dog sees the sea.", "", "Zoë ﬂies to 東京, ß!"]
    original = sentencepiece.SentencePieceProcessor(model_file=str(file))
    order = read_vocabulary(file, original.get_piece_size())
    tokenizer = lookup_tokenizer(file.read_bytes(), order.our_pieces, file)
    assert tokenizer.vocab_size == original.get_piece_size() + 1
    # Padding is new, and what follows it is as it was.
    expected = [[i + 1 for i in ids] for ids in original.encode(lines, add_eos=True)]
    assert [ids.tolist() for ids in tokenizer.encode(lines)] == expected
    assert tokenizer.decode(expected) == original.decode(original.encode(lines))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The run of a model that Marian itself trained (experiments/importing_models)."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    make_run(read_marian(TRAINED), make_problem("parallel_text", LANGUAGES), folder, "it")
    return folder


@pytest.mark.parametrize(("kind", "size"), [("greedy", 1), ("beam", 4)])
def test_translations_are_those_of_marian(trained, kind, size):
    answers = json.loads((TRAINED / "answers.json").read_text(encoding="utf-8"))
    translator = Translator.from_run(trained, decode_hparams=f"beam_size={size},alpha=0")
    translations = translator.translate(answers["lines"])
    assert [translation.text for translation in translations] == answers[kind]


def test_scores_are_those_of_marian(trained):
    answers = json.loads((TRAINED / "answers.json").read_text(encoding="utf-8"))
    scores = Translator.from_run(trained).score(answers["lines"], answers["greedy"])
    log_probs = [score.log_prob for score in scores]
    np.testing.assert_allclose(log_probs, answers["log_probs"], rtol=0, atol=1e-4)
