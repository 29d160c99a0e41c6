import dataclasses
import gc
import json
import os
import subprocess
import sys
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from refusals import refused

from t2t_keras.data.problem import Problem, make_problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engine import pad_rows
from t2t_keras.decoding.translator import Translator
from t2t_keras.interop.importers.weights import lookup_tokenizer
from t2t_keras.interop.keras_hub import TransformerBackbone
from t2t_keras.interop.tokenizers import SubwordTokenizer
from t2t_keras.models.transformer import Transformer
from t2t_keras.serving.formats import write_format
from t2t_keras.special_ids import EOS_ID, UNKNOWN_ID
from t2t_keras.text.tokenizer import SentencePieceTokenizer

keras_hub = pytest.importorskip("keras_hub")
TransformerTokenizer = pytest.importorskip("t2t_keras.interop.keras_hub").TransformerTokenizer

pytestmark = [
    # KerasHub leaves the vocabulary's file open.
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.shuffle=True. was passed:UserWarning"),
]

SIZES = dict(num_layers=1, d_model=16, d_ff=16, num_heads=2, max_positions=64, positions="learned")


@pytest.fixture(autouse=True)
def keep_garbage(monkeypatch):
    """Keras would collect it, which takes half a second, for each layer that becomes int8."""
    monkeypatch.setattr(gc, "collect", lambda: 0)


@pytest.fixture(scope="module")
def pairs():
    toy = make_problem("translate_ende_toy").examples("dev")
    return [tuple(" ".join(side.split()[:4]) for side in pair) for pair in list(toy)[:200]]


@pytest.fixture(scope="module")
def lines(pairs):
    return [source for source, _ in pairs[:10]]


@pytest.fixture(scope="module")
def translator(pairs):
    """Two vocabularies, one with pieces that have no id; some outputs end before the limit."""
    target = SentencePieceTokenizer.train([target for _, target in pairs], vocab_size=320)
    source = SentencePieceTokenizer.train([source for source, _ in pairs], vocab_size=340)
    source = lookup_tokenizer(source.model_bytes, source.pieces(range(330)), "source.model")
    options = dict(share_embeddings="target", scale_embedding=False, attention_bias=True)
    model = Transformer(
        320, source_vocab_size=330, **SIZES, **options, softmax_bias=True, pre_norm=True
    )
    model.build()
    random = np.random.default_rng(2)
    for weight in model.weights:
        if not weight.path.endswith("gamma"):
            weight.assign(random.normal(0, 0.6, weight.shape))
    model.target_positions.table.assign(random.normal(0, 3, (64, 16)))
    model.embedding.bias.assign(np.where(np.arange(320) == EOS_ID, 3, model.embedding.bias))
    config = DecodeConfig(beam_size=1, extra_length=4, max_input_length=24)
    return Translator(model, target.with_source(source), config)


@pytest.fixture(scope="module")
def expected(translator, lines):
    return [translation.text for translation in translator.translate(lines)]


@pytest.fixture(scope="module")
def preset(translator, tmp_path_factory):
    folder = tmp_path_factory.mktemp("preset") / "keras_hub"
    return str(write_format("keras_hub", translator, folder, "float32"))


@pytest.fixture(scope="module")
def load(preset):
    read = keras_hub.models.Seq2SeqLM.from_preset
    return lambda folder=preset, **options: read(str(folder), **options)


@pytest.fixture(scope="module")
def loaded(load):
    """The task; its weights stay."""
    return load()


@pytest.fixture(scope="module")
def bare(load):
    """The task without its preprocessor; its weights stay."""
    return load(preprocessor=None)


def batch(translator, lines):
    """The sources and our greedy outputs as ids, [batch, length]."""
    source = pad_rows(translator.tokenizer.source.encode(lines))
    return source, translator.search(source).ids.numpy()[:, 0]


def inputs(source, target):
    """What a backbone takes."""
    target = np.pad(target, [[0, 0], [1, 0]])
    start = np.arange(target.shape[1]) == 0
    sides = ("encoder", source, source != 0), ("decoder", target, (target != 0) | start)
    return {
        f"{side}_{name}": value
        for side, ids, mask in sides
        for name, value in (("token_ids", ids), ("padding_mask", mask))
    }


def test_text_is_what_the_translator_gives(load, lines, expected, translator):
    lengths = (batch(translator, lines)[1] != 0).sum(axis=1)
    limits = [len(ids) + 4 for ids in translator.tokenizer.source.encode(lines)]
    assert any(lengths == limits)
    assert len(set(lengths - limits)) > 3
    assert len(set(expected)) > 7
    task = load()
    assert task.generate(lines) == expected
    assert task.generate(lines[::-1]) == expected[::-1]
    assert task.generate_function.experimental_get_tracing_count() == 1


def test_max_length(load, lines, translator, tmp_path):
    config = dataclasses.replace(translator.config, max_length=5)
    other = Translator(translator.models, translator.tokenizer, config)
    task = load(write_format("keras_hub", other, tmp_path / "preset", "float32"))
    task.compile(run_eagerly=True)
    assert task.generate(lines[:4]) == [
        translation.text for translation in other.translate(lines[:4])
    ]


def test_pieces_are_looked_up():
    """Those that a model divides off without knowing them, and those that it knows."""
    learned = SentencePieceTokenizer.train(["ein Haus im Wald"] * 9, 40, kind="char")
    known = [*learned.pieces(range(9)), "ö", "sch", "üß"]
    ours = lookup_tokenizer(learned.model_bytes, known, "source.model")
    tokenizer = TransformerTokenizer(ours.model_bytes)
    lines = ["ein schön üß Haus", "ö", ""]
    expected = [ids[:-1].tolist() for ids in ours.encode(lines)]
    assert {UNKNOWN_ID, 9, 11} < {i for row in expected for i in row}
    assert tokenizer.tokenize(lines) == expected
    for line, ids in zip(lines, expected, strict=True):
        assert tokenizer.tokenize(line).tolist() == ids
    in_graph = tf.data.Dataset.from_tensors(lines).map(tokenizer.tokenize)
    assert next(iter(in_graph)).to_list() == expected
    in_graph = tf.data.Dataset.from_tensor_slices(lines).map(tokenizer.tokenize)
    assert [ids.numpy().tolist() for ids in in_graph] == expected


def test_ids_and_logits_are_ours(bare, lines, translator):
    source, target = batch(translator, lines)
    hidden = {"encoder_token_ids": np.where(source, source, 7)}  # The mask says what is padding.
    logits = bare(inputs(source, target) | hidden).numpy()[:, :-1]
    ours = translator.models[0]({"source": source, "target": target}).numpy()
    np.testing.assert_allclose(logits[target != 0], ours[target != 0], rtol=0, atol=1e-5)
    bare.compile(run_eagerly=True)
    begin = inputs(source, np.zeros_like(target))
    actual = bare.generate(begin, stop_token_ids=(EOS_ID,))
    # Without a preprocessor there is no limit but the length of what is given.
    ended = (target == EOS_ID).any(axis=1) & ((target != 0).sum(axis=1) < (source != 0).sum(1) + 4)
    assert ended.any()
    np.testing.assert_array_equal(actual["decoder_token_ids"][ended, 1:], target[ended])
    np.testing.assert_array_equal(actual["decoder_padding_mask"][ended, 1:], target[ended] != 0)
    some = bare.generate(inputs(source[:2], np.zeros((2, 8), int)), stop_token_ids=None)
    assert some["decoder_padding_mask"].all()
    assert (some["decoder_token_ids"][:, 1:] != 0).all()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("BeamSampler", {"num_beams": 3}),
        ("ContrastiveSampler", {"k": 3, "alpha": 0.6}),
        ("TopKSampler", {"k": 4, "seed": 1}),
    ],
)
def test_samplers_choose_what_they_choose_without_a_cache(bare, lines, translator, name, options):
    """From outputs that begin with 2 to 4 given tokens."""
    sampler = getattr(keras_hub.samplers, name)(**options)
    bare.compile(sampler=sampler, run_eagerly=True)
    source, target = batch(translator, lines[:3])
    begun = np.arange(7) < np.arange(2, 5)[:, None]
    begin = inputs(source, np.where(begun, target[:, :7], 0))

    def score(prompt, cache, index):
        hypotheses = prompt.shape[0] // 3
        repeated = {name: np.repeat(value, hypotheses, axis=0) for name, value in begin.items()}
        repeated |= {"decoder_token_ids": prompt}
        states = bare.backbone({name: keras.ops.array(ids) for name, ids in repeated.items()})
        states = states["decoder_sequence_output"][:, index - 1]
        logits = bare.backbone.transformer.logits(states).numpy()
        logits[:, 0] = -np.inf
        return keras.ops.array(logits), states, cache

    mask = begin["decoder_padding_mask"]
    start = dict(prompt=keras.ops.array(begin["decoder_token_ids"]), mask=mask, index=3)
    states = bare.backbone(begin)["decoder_sequence_output"]
    drawn = [variable.numpy() for variable in sampler.variables]
    chosen = sampler(score, **start, stop_token_ids=[EOS_ID], hidden_states=states).numpy()
    for variable, before in zip(sampler.variables, drawn, strict=True):
        variable.assign(before)
    actual = bare.generate(begin, stop_token_ids=(EOS_ID,))
    real = actual["decoder_padding_mask"]
    np.testing.assert_array_equal(actual["decoder_token_ids"], np.where(real, chosen, 0))
    assert len(set(chosen[:, 3:].ravel().tolist())) > 3


def test_sources_are_padded_to_few_lengths(loaded, translator):
    preprocessor, tokenizer = loaded.preprocessor, translator.tokenizer.source
    sources = {len(tokenizer.encode(["x" * count])[0]): "x" * count for count in range(40)}
    for tokens, padded_to in ((1, 16), (16, 16), (17, 24), (30, 24)):
        actual = preprocessor.generate_preprocess([sources[tokens]])
        assert actual["encoder_token_ids"].shape == (1, padded_to)
        assert actual["decoder_token_ids"].shape == (1, padded_to + 5)
        real = actual["encoder_padding_mask"].numpy().sum()
        assert real == min(tokens, 24)


def test_training_examples(loaded, pairs, translator):
    sources, targets = map(list, zip(*pairs[:6], strict=True))
    preprocessor = loaded.preprocessor
    x, y, weights = preprocessor({"encoder_text": sources, "decoder_text": targets})
    ids = translator.tokenizer.source.encode(sources)
    assert any(UNKNOWN_ID in row for row in ids)
    for row, actual in zip(ids, x["encoder_token_ids"].numpy(), strict=True):
        np.testing.assert_array_equal(actual, np.pad(row, (0, 24 - len(row))))
    for row, before, actual, weight in zip(
        translator.tokenizer.encode(targets), x["decoder_token_ids"], y, weights, strict=True
    ):
        np.testing.assert_array_equal(actual, np.pad(row, (0, 29 - len(row))))
        np.testing.assert_array_equal(weight, np.arange(29) < len(row))
        np.testing.assert_array_equal(before, np.pad(row, (1, 28 - len(row))))


def test_lora_trains_nothing_else(load, loaded, pairs, tmp_path):
    task = load()
    task.backbone.enable_lora(2)
    task.compile(optimizer=keras.optimizers.Adam(0.1), run_eagerly=True)
    trained = {weight.path for weight in task.trainable_weights}
    assert len(trained) == 12  # Queries and values of three attentions.
    assert all("lora_kernel" in path for path in trained)
    frozen = [weight.numpy() for weight in task.non_trainable_weights]
    sources, targets = zip(*pairs[:8], strict=True)
    text = {"encoder_text": list(sources), "decoder_text": list(targets)}
    losses = task.fit(text, batch_size=4, epochs=2, verbose=0).history["loss"]
    assert losses[1] < losses[0]
    for weight, before in zip(task.non_trainable_weights, frozen, strict=True):
        np.testing.assert_array_equal(weight, before)
    example = task.preprocessor(text)[0]
    logits, before = task(example).numpy(), loaded(example).numpy()
    assert np.abs(logits - before).max() > 0.1
    task.backbone.save_lora_weights(str(tmp_path / "weights.lora.h5"))
    other = load()
    other.backbone.load_lora_weights(str(tmp_path / "weights.lora.h5"))
    np.testing.assert_allclose(other(example), logits, rtol=0, atol=1e-5)


def test_int8(load, loaded, lines, translator, tmp_path):
    folder = write_format("keras_hub", translator, tmp_path / "int8", "int8")
    task = load(folder)
    kernels = [weight for weight in task.weights if weight.path.endswith("kernel")]
    assert {weight.dtype for weight in kernels} == {"int8"}
    example = inputs(*batch(translator, lines))
    # Logits are some tens.
    assert 0 < np.abs(task(example) - loaded(example)).mean() < 1
    task.compile(run_eagerly=True)
    assert all(task.generate(lines[:2], max_length=4))
    with refused("other_model", folder):
        load(folder, dtype="bfloat16")


def test_half_precision(load, loaded, lines, translator, tmp_path):
    example = inputs(*batch(translator, lines))
    folder = write_format("keras_hub", translator, tmp_path / "bfloat16", "bfloat16")
    task, stored = load(dtype="bfloat16"), load(folder, dtype="bfloat16")
    assert {weight.dtype for weight in task.weights} == {"bfloat16"}
    logits = task(example).numpy()
    np.testing.assert_array_equal(stored(example), logits)
    assert 0 < np.abs(logits - loaded(example)).mean() < 0.5


def test_a_saved_preset_is_the_same(load, loaded, lines, expected, tmp_path):
    loaded.save_to_preset(str(tmp_path / "again"))
    again = load(tmp_path / "again")
    for weight, same in zip(loaded.weights, again.weights, strict=True):
        np.testing.assert_array_equal(weight, same)
    for part in ("backbone", "preprocessor"):
        assert getattr(loaded, part).get_config() == getattr(again, part).get_config()
    config = again.preprocessor.get_config()
    limits = ("encoder_sequence_length", "decoder_sequence_length", "extra_length")
    assert [config[name] for name in limits] == [24, 29, 4]
    again.compile(run_eagerly=True)
    assert again.generate(lines[2]) == expected[2]
    text = {"encoder_text": lines[:2], "decoder_text": ["Der Hund", ""]}
    assert again.generate(text)[0].startswith("Der Hund")


@pytest.mark.slow
def test_jax_gives_the_same(preset, lines, expected):
    code = (
        "import json, sys, keras, keras_hub, t2t_keras.interop.keras_hub\n"
        "task = keras_hub.models.Seq2SeqLM.from_preset(sys.argv[1])\n"
        "print(json.dumps([keras.config.backend(), task.generate(json.loads(sys.argv[2]))]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, preset, json.dumps(lines)],
        env=os.environ | {"KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == ["jax", expected]


def test_refused(translator, tmp_path):
    model, tokenizer = translator.models[0], translator.tokenizer

    def check(name, *arguments, code="not_supported", dtype="float32", **options):
        with refused(code, name):
            write_format("keras_hub", Translator(*arguments, **options), tmp_path / "no", dtype)
        assert not (tmp_path / "no").exists()

    check("Transformer, Transformer", [model, model], tokenizer)
    subwords = "".join(f"'{piece}'\n" for piece in ("<pad>", "<EOS>", *"0123456789;\\_u"))
    old = SubwordTokenizer(subwords.encode())
    check("*.subwords", model, old, code="other_vocabulary_kind")
    flags = dict.fromkeys(("split_long", "check_placeholders", "xla", "xla_for_one"), True)
    unsupported = dict(coverage_penalty=0.1, min_length=3, samples=3, weights_dtype="bfloat16")
    for name, value in (flags | unsupported | {"terms": "a=b"}).items():
        check(name, model, tokenizer, DecodeConfig(**{name: value}))
    check("forbidden", model, tokenizer, forbidden=["Hund"])
    parser = make_problem("parsing_craft")
    check("parsing", model, tokenizer, problem=parser)
    protecting = make_problem("parallel_text", "transforms=placeholders")
    check("transforms=[placeholders]", model, tokenizer, problem=protecting)
    own = type("Own", (Problem,), {"postprocess": lambda *_: "?"})(name="own")
    check("own", model, tokenizer, problem=own)
    check("float32, bfloat16, int8", model, tokenizer, code="bad_value", dtype="float16")


BACKBONE = dict(vocab_size=11, num_layers=1, d_model=8, d_ff=16, num_heads=2)


@pytest.fixture
def case(monkeypatch):
    """KerasHub's harness, which imports grain for data that is not used here."""
    monkeypatch.setitem(sys.modules, "grain", types.ModuleType("grain"))
    return pytest.importorskip("keras_hub.src.tests.test_case").TestCase()


@pytest.mark.slow
def test_the_backbone_in_keras_hub_s_own_harness(case):
    ids = np.array([[3, 4, 5, 1, 0], [4, 2, 1, 0, 0]], np.int32)
    data = {f"{side}_token_ids": ids for side in ("encoder", "decoder")}
    data |= {f"{side}_padding_mask": np.int32(ids != 0) for side in ("encoder", "decoder")}
    names = ("encoder_sequence_output", "decoder_sequence_output")
    case.run_backbone_test(
        TransformerBackbone,
        init_kwargs=BACKBONE,
        input_data={name: keras.ops.array(value) for name, value in data.items()},
        expected_output_shape=dict.fromkeys(names, (2, 5, 8)),
    )


@pytest.mark.slow
# Both come from KerasHub's own code.
@pytest.mark.filterwarnings("ignore:The `check_types` argument:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.compile\\(\\). was not called as part of:UserWarning")
def test_the_task_in_keras_hub_s_own_harness(case, load, pairs):
    task, sides = load(), zip(("encoder", "decoder"), zip(*pairs[:4], strict=True), strict=True)
    case.run_task_test(
        type(task),
        init_kwargs={"backbone": task.backbone, "preprocessor": task.preprocessor},
        train_data=({f"{side}_text": list(texts) for side, texts in sides},),
    )


def test_an_exported_backbone_has_keras_hub_s_inputs(tmp_path):
    backbone = TransformerBackbone(**BACKBONE)
    backbone.export(tmp_path / "backbone", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "backbone"))
    ids = np.array([[3, 4, 1, 0]], np.int32)
    inputs = {name: ids if name.endswith("ids") else np.ones_like(ids) for name in backbone.input}
    expected = backbone(inputs)
    for name, output in loaded.serve(inputs).items():
        np.testing.assert_allclose(output, expected[name], atol=1e-5)
