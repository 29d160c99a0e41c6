"""What commands refuse: in one message, with status 2, without output, and nothing is written."""

import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys

import pytest

from t2t_keras import bin as commands_of
from t2t_keras.decoding.translator import Translator

DECODER, INSIGHTS = "t2t-decoder --output_dir=run ", "t2t-insights --output_dir=run "
BLEU, TABLES = "t2t-bleu --translation=one --reference=", "t2t-tables --table="
NEW = "t2t-trainer --hparams_set=transformer_tiny --output_dir=new "
IDENTITY = NEW + "--data_dir=. --problem=algorithmic_identity_binary40 "
REVERSE = "t2t-datagen --problem=algorithmic_reverse_binary40 "
ONNX = "t2t-exporter --output_dir=nowhere --format=onnx "
NO_RUN = "t2t-decoder --output_dir="
ALL = "t2t-translate-all --output_dir=run "
EVALB = "t2t-evalb --test=one --gold="
REFUSED = [
    ("t2t-avg-all --model_dir=run", "Please give --output_dir"),
    ("t2t-avg-all --model_dir=run --output_dir=run", "already contains"),
    ("t2t-avg-all --model_dir=run --output_dir=x --n=0", "--n=0"),
    ("t2t-npz-to-checkpoint --model_dir=run", "Please give --output_dir"),
    ("t2t-npz-to-checkpoint --model_dir=run --output_dir=x", "no .npz checkpoint"),
    ("t2t-bleu --reference=x", "--translation"),
    (BLEU + "nowhere", "nowhere"),
    (BLEU + "two", "1 translations and 2 references"),
    (BLEU + "one --convention=tokenised", "language"),
    (BLEU + "one --convention=tokenised --language=germn", "'german'"),
    (BLEU + "one --convention=tokenized", "'tokenised'"),
    (BLEU + "one --convention=tokenised --language=de --tokenize=none", "--tokenize"),
    (BLEU + "one --translations_dir=x", "--translation or --translations_dir"),
    (BLEU + "one --min_steps=1", "--min_steps"),
    (BLEU + "one --problem=translate_ende", "no flag --problem"),
    ("t2t-bleu --translations_dir=nowhere --reference=one", "nowhere"),
    ("t2t-bleu --translations_dir=texts --reference=texts/results.jsonl", "also an input"),
    (
        "t2t-bleu --translations_dir=run --event_dir=texts --reference=texts/results.jsonl",
        "also an input",
    ),
    ("t2t-datagen --data_dir=x", "--problem"),
    (REVERSE, "--data_dir"),
    ("t2t-datagen --data_dir=x --problem=algoritmic_reverse", "algorithmic_reverse_binary40"),
    ("t2t-datagen --data_dir=x --tmp_dir=. --problem=parallel_text", "source_language"),
    (REVERSE + "--data_dir=x --problem_config=dev_length=1e12", "'dev_length' must be <= 100000"),
    ("t2t-datagen --num_worker=2", "num_workers"),
    ("t2t-datagen --num_workers=0", "num_workers"),
    ("t2t-datagen --num_workers=some", "num_workers"),
    (REVERSE + "--data_dir=x --num_workers=2 --beam_runner=DirectRunner", "exclude each other"),
    (REVERSE + "--data_dir=x --beam_pipeline_options=streaming", "needs --beam_runner"),
    (REVERSE + "--data_dir=x --beam_runner=x", "Unexpected pipeline runner: x|t2t-keras.beam"),
    ("t2t-decoder", "--output_dir"),
    ("t2t-decoder --output_dir=nowhere", "--output_dir=nowhere"),
    (DECODER + "--hparams=d_ff=32", "d_ff: recorded 16, requested 32"),
    (DECODER + "--checkpoint_path=run/model.ckpt-11", "model.ckpt-11.* model.ckpt-10"),
    (DECODER + "--data_dir=nowhere", "t2t-datagen"),
    (DECODER + "--decode_reference=x", "--decode_reference needs --decode_from_file"),
    (DECODER + "--decode_from_file=one --results_file=x", "needs --decode_reference"),
    (DECODER + "--disturb=typos+uper", "Did you mean 'upper'"),
    (DECODER + "--disturb=upper --decode_from_file=one", "--disturb .* needs --decode_reference"),
    *(
        (f"{DECODER}--decode_from_file=one --shard={wrong}", f"NUMBER/COUNT .* got '{wrong}'")
        for wrong in ("0/3", "4/3", "a/b", "3", "1/3/5", "-1/3")
    ),
    (DECODER + "--shard=1/3", "--shard needs --decode_from_file"),
    (DECODER + "--shard=1/3 --decode_from_file=-", "regular file, whose lines are counted: -"),
    (DECODER + "--ensemble=nowhere", "checkpoint nowhere"),
    (DECODER + "--decode_from_file=- --decode_reference=one", "must be regular, got -"),
    (DECODER + "--decode_to_file=-", "must be regular, got -"),
    (DECODER + "--decode_from_file=one --forbidden_file=two --decode_to_file=two", "two"),
    (
        DECODER + "--decode_from_file=one --decode_to_file=o --attention_file=x --ensemble=run",
        "of 2",
    ),
    (DECODER + "--forbidden_file=nowhere", "nowhere"),
    (DECODER + "--decode_from_file=one --decode_reference=two", "got 2 lines in .*two for 1"),
    (DECODER + "--decode_from_file=two --decode_reference=one", "got 1 lines in .*one for 2"),
    (DECODER + "--eval_use_test_set --data_dir=untested", "no test set.*Leave --eval_use_test_set"),
    # The error describes a path that is not a run.
    (NO_RUN + "run/export/7", "a SavedModel: t2t_keras.load_export"),
    (NO_RUN + "run/export", "a SavedModel: t2t_keras.load_export"),
    (NO_RUN + "ct2", "an export for CTranslate2: .* --engine=ctranslate2"),
    (NO_RUN + "data/parallel_text", "generated data: give its parent folder as --data_dir"),
    (NO_RUN + "run/model.ckpt-20", "give its folder, run, as the run, and run/model.ckpt-20 as"),
    (NO_RUN + "run/model.ckpt-20.index", "and run/model.ckpt-20 as --checkpoint_path"),
    (NO_RUN + "run/model.ckpt-20.npz", "run/model.ckpt-20.npz as --checkpoint_path"),
    (NO_RUN + "rum", "rum is not there. Did you mean 'run'"),
    (NO_RUN + ".", "contains runs: .* as run"),
    (NO_RUN + "one", "one is a file"),
    (NO_RUN + "run/export/7 --engine=ctranslate2", "no model for CTranslate2 .* a SavedModel"),
    ("t2t-serve --model=en-de=run/export/7", "expected a run or an export .* a SavedModel"),
    ("t2t-serve --model=en-de=ct2 --engine=keras", "for the engine keras .* for CTranslate2: "),
    ("t2t-compare --runs=run/export/7,run", "neither a run nor .* a SavedModel"),
    (EVALB + "one --param=other", "COLLINS"),
    (EVALB + "nowhere", "nowhere cannot be read"),
    (EVALB, "--gold"),
    ("t2t-exporter --output_dir=run --measure --decode_hparams=xla=true", "xla"),
    ("t2t-exporter --output_dir=run --decode_hparams=alpha=x", "alpha"),
    ("t2t-exporter --output_dir=run --dtype=int4", "--dtype"),
    ("t2t-exporter --output_dir=run --servable_name=\udcff", "--servable_name"),
    ("t2t-exporter --output_dir=run --data_dir=none/at/all", "no generated data"),
    (ONNX + "--measure --data_dir=data", "--measure and --data_dir would have no effect"),
    (ONNX + "--dtype=float16", "expected --dtype in float32, int8, got float16"),
    (ONNX + "--export_dir=run", "run is there already"),
    (INSIGHTS, "--sentence and --sentences_from_file"),
    (INSIGHTS + "--sentences_from_file=nowhere", "nowhere"),
    (INSIGHTS + "--sentence=\udcff", "--sentence"),
    (INSIGHTS + "--sentence=\u3000", "--sentence"),
    (INSIGHTS + "--sentence=x --figure_heads=1", "--figure_heads .* --figure"),
    (INSIGHTS + "--sentence=x --figure=a.svg --figure_heads=0,2", "0 to 1.* got 0,2"),
    (INSIGHTS + "--sentence=x --figure=a.svg --figure_heads=a", "--figure_heads.*'a'"),
    (INSIGHTS + "--sentences_from_file=two --figure=a.svg", "two has 2"),
    (INSIGHTS + "--sentence=x --page=/proc/page.html", "/proc"),
    (INSIGHTS + "--sentence=x --page=pipe", "--page .*pipe'"),
    (INSIGHTS + "--sentences_from_file=two --page=two", "two"),
    (INSIGHTS + "--sentences_from_file=one --figure=link.svg", "one"),
    (INSIGHTS + "--sentence=x --page=run", "is a folder"),
    ("t2t-plot", "Please give the directories of runs"),
    ("t2t-plot nowhere run", "no run in nowhere"),
    ("t2t-plot run", "run has no curves"),
    ("t2t-plot run --over=days", "over"),
    ("t2t-plot run --plot_file=plot.pdf", r"\.png, \.svg; got 'plot.pdf'"),
    ("t2t-plot run --plot_file=run.svg", "Cannot write to run.svg"),
    ("t2t-tables", "--table"),
    (TABLES + "5", "table"),
    (TABLES + "1 --r=8", "--r must be odd"),
    (TABLES + "1 --vocab_size=9", "--vocab_size, which is for Table 3"),
    (TABLES + "1 --results_file=x", "--results_file, which is for Tables 2, 3 and 4"),
    (TABLES + "2 --gpus=2", "--hours or --step_seconds"),
    (TABLES + "2 --results_file=.", "Is a directory"),
    (TABLES + "2 --results_file=nowhere", "nowhere cannot be read"),
    (TABLES + "2 --hours=nan", "--hours=nan: must be finite"),
    (NEW + "--problem=algorithmic_identity_binary40", "--data_dir"),
    (NEW + "--problem=translate_ende_toy --dry_run --hparams_set=auto", "give --data_dir"),
    (NEW + "--data_dir=. --problem=translate_ende_toi", "'translate_ende_toy'"),
    (IDENTITY, "t2t-datagen --problem=algorithmic_identity_binary40"),
    (IDENTITY + "--output_dir=", "--output_dir"),
    (IDENTITY + "--trian_steps=5", "'train_steps'"),
    (IDENTITY + "--train_steps=many", "train_steps"),
    (IDENTITY + "stray", "'stray'"),
    (IDENTITY + "--hparams=hidden_size=5", "d_model"),
    (IDENTITY + "--t2t_usr_dir=/nowhere", "--t2t_usr_dir=/nowhere"),
    (ALL + "--source=-", "--source must be a regular file, got -"),
    (ALL + "--source=x --eval_use_test_set", "exclude each other"),
    (ALL + "--prefix_file=/dev/null", "--prefix_file .* got /dev/null"),
    ("t2t-filter --source=one --target=one --output=x --forward=run", "Please give --keep"),
]
# Flags of which one would be ignored beside the other.
OF_A_FILE = "decode_from_file=x eval_use_test_set decode_reference=x results_file=x"
MORE = "prefix_file=x alignment_file=x attention_file=x"
REFUSED += [
    (f"{DECODER}--{one} --{other}", f"--{one.split('=')[0]} and --{other.split('=')[0]} exclude")
    for one, others in {
        "decode_interactive": f"{OF_A_FILE} {MORE} decode_to_file=x score_file=x",
        "score_file=x": f"{OF_A_FILE} {MORE} forbidden_file=x glossary=x",
        "eval_use_test_set": "decode_from_file=x",
        "disturb=upper": f"decode_interactive score_file=x glossary=x {MORE}",
        "shard=1/3": "decode_reference=x disturb=upper results_file=x",
    }.items()
    for other in others.split(" ")
]
# No file of a run, of its data or of an export is replaced, nor an input.
REFUSED += [
    (f"{command}={target}", "Cannot write to ")
    for target in ("run/vocab.model", "data/parallel_text/train-00000.tokens.npy", "link", "one")
    for command in (
        DECODER + "--decode_from_file=one --decode_to_file",
        DECODER + "--decode_from_file=one --decode_to_file=out --alignment_file",
        DECODER + "--decode_from_file=one --decode_to_file=out --attention_file",
        DECODER + "--decode_from_file=one --decode_reference=one --results_file",
        INSIGHTS + "--sentences_from_file=one --page",
        "t2t-query-server --input_file=one --server=localhost:1 --servable_name=x --output_file",
    )
] + [
    ("t2t-eval --output_dir=run --worker_gpu=0 --results_file=run/run.json", "Cannot write to "),
    ("t2t-eval --output_dir=run --worker_gpu=0 --eval_use_test_set", "eval_test/results.jsonl: "),
    # A text that is called as a checkpoint.
    (ALL + "--source=model.ckpt --translations_dir=run", "Cannot"),
    (ALL + "--source=one --translations_dir=texts --forbidden_file=texts/one.json", "an input"),
    ("t2t-exporter --output_dir=run --export_dir=run", "folder of its own"),
    ("t2t-serve --model=en-de=run --glossary=en-de=terms --glossary=en-de=terms", "Join the files"),
    ("t2t-serve --model=en-de=run --glossary=terms --glossary=terms", "all pairs has one"),
    ("t2t-serve --model=en-de=run --key=one", "both --certificate and --key"),
    ("t2t-serve --model=en-de=run --certificate=one", "both --certificate and --key"),
    ("t2t-exporter --output_dir=run --export_dir=data/parallel_text", "of its own"),
    ("t2t-exporter --output_dir=run --export_dir=run/export/7", "Cannot write to "),
]


@pytest.fixture
def folder(random_run, tmp_path, monkeypatch):
    """The working directory: a copy of a run and its data, texts, and a link into the run."""
    for name in ("run", "data"):
        shutil.copytree(random_run.parent / name, tmp_path / name)
    record = tmp_path / "run" / "run.json"
    record.write_text(record.read_text().replace(str(random_run.parent), str(tmp_path)))
    (tmp_path / "link").symlink_to(record)
    (tmp_path / "link.svg").symlink_to("one")
    (tmp_path / "run.svg").symlink_to(record)
    (tmp_path / "run" / "eval_test").mkdir()
    (tmp_path / "run" / "eval_test" / "results.jsonl").hardlink_to(record)
    (tmp_path / "ct2").mkdir()
    (tmp_path / "ct2" / "t2t_keras.json").touch()
    shutil.copytree(tmp_path / "data", tmp_path / "untested")
    manifest = tmp_path / "untested" / "parallel_text" / "manifest.json"
    content = json.loads(manifest.read_text())
    del content["splits"]["test"]
    manifest.write_text(json.dumps(content))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "texts").mkdir()
    for name, text in {
        "one": "A man\n",
        "two": "A\nB\n",
        "model.ckpt": "A\n",
        "terms": "a\tb\n",
        "texts/results.jsonl": "A\n",
        "texts/one.json": "A\n",
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "run" / "export" / "7").mkdir(parents=True)
    (tmp_path / "run" / "export" / "7" / "saved_model.pb").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("command", "message"), REFUSED)
def test_refused(folder, refused, monkeypatch, command, message):
    if "--figure" in command:
        pytest.importorskip("matplotlib", reason="needs matplotlib")
    # It is refused before any work.
    monkeypatch.delattr(Translator, "translate_stream")
    before = contents(folder)
    assert re.search(message, refused(*filter(None, command.split(" "))))
    assert contents(folder) == before


# What only the model tells, or modules that need Keras.
WITH_KERAS = (
    "t2t-avg-all --model_dir=run --output_dir=run",
    "t2t-npz-to-checkpoint --model_dir=run --output_dir=x",
    "t2t-bleu --translations_dir",
    "t2t-eval --output_dir=run",
    "t2t-exporter --output_dir=run --data_dir=none",
    "t2t-exporter --output_dir=run --measure",
    INSIGHTS + "--sentence=x --page=pipe",
    TABLES + "1 --r=8",
    DECODER + "--shard=1/3 --decode_from_file=-",
    DECODER + "--decode_from_file=one --decode_to_file=o",
    ALL + "--source=model.ckpt",
    ALL + "--source=one",
    "t2t-serve",
    "t2t-compare --runs",
)
WITHOUT_KERAS = """
import contextlib, importlib, json, sys
sys.modules.update(tensorflow=None, keras=None, jax=None)
for argv in json.loads(sys.argv[1]):
    module = importlib.import_module(f"t2t_keras.bin.{argv[0].replace('-', '_')}")
    with contextlib.suppress(SystemExit):
        module.run(argv)
    print(end="\\0", file=sys.stderr)
"""


def without_keras(commands):
    """What commands print, and what each says, where neither Keras nor TensorFlow is installed."""
    argvs = json.dumps([list(filter(None, command.split(" "))) for command in commands])
    call = [sys.executable, "-c", WITHOUT_KERAS, argvs]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr.split("\0")[:-1]


@pytest.mark.usefixtures("folder")
def test_most_is_refused_before_keras_is_imported():
    quick = [case for case in REFUSED if not case[0].startswith(WITH_KERAS)]
    quick = [case for case in quick if "--figure" not in case[0]]
    printed, said = without_keras([command for command, _ in quick])
    assert printed == ""
    for (command, message), each in zip(quick, said, strict=True):
        assert re.search(message, each), command


def test_help_does_not_import_keras():
    names = [module.name for module in pkgutil.iter_modules(commands_of.__path__)]
    names = [name.replace("_", "-") for name in names if name.startswith("t2t")]
    printed, said = without_keras([f"{name} --help" for name in names])
    assert said == [""] * len(names)
    assert printed.count("--helpfull shows all flags.") == len(names)
