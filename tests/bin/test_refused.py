"""What commands refuse: in one message, with status 2, without output, and nothing is written."""

import json
import os
import pkgutil
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
# A command; and the code of its error, with the names and values that the error has.
REFUSED = [
    ("t2t-avg-all --model_dir=run", "missing_flags --output_dir"),
    ("t2t-avg-all --model_dir=run --output_dir=run", "output_exists --output_dir=run run.json"),
    ("t2t-avg-all --model_dir=run --output_dir=x --n=0", "bad_value --n=0"),
    ("t2t-npz-to-checkpoint --model_dir=run", "missing_flags --output_dir"),
    ("t2t-npz-to-checkpoint --model_dir=run --output_dir=x", "no_checkpoint .npz run"),
    ("t2t-bleu --reference=x", "missing_flags --translation"),
    (BLEU + "nowhere", "not_read nowhere"),
    (BLEU + "two", "unequal_counts 1 2"),
    (BLEU + "one --convention=tokenised", "bad_value tokenised ''"),
    (BLEU + "one --convention=tokenised --language=germn", "bad_value 'germn' 'german'"),
    (BLEU + "one --convention=tokenized", "unknown_name 'tokenized' 'tokenised'"),
    (
        BLEU + "one --convention=tokenised --language=de --tokenize=none",
        "conflicting_settings --convention=tokenised --tokenize",
    ),
    (BLEU + "one --translations_dir=x", "conflicting_settings --translation --translations_dir"),
    (BLEU + "one --min_steps=1", "conflicting_settings --min_steps --translations_dir"),
    (BLEU + "one --problem=translate_ende", "unknown_flag --problem"),
    ("t2t-bleu --translations_dir=nowhere --reference=one", "no_translations nowhere"),
    (
        "t2t-bleu --translations_dir=texts --reference=texts/results.jsonl",
        "output_is_input texts/results.jsonl",
    ),
    (
        "t2t-bleu --translations_dir=run --event_dir=texts --reference=texts/results.jsonl",
        "output_is_input texts/results.jsonl",
    ),
    ("t2t-datagen --data_dir=x", "missing_flags --problem"),
    (REVERSE, "missing_flags --data_dir"),
    (
        "t2t-datagen --data_dir=x --problem=algoritmic_reverse",
        "unknown_name 'algoritmic_reverse' 'algorithmic_reverse_binary40'",
    ),
    (
        "t2t-datagen --data_dir=x --tmp_dir=. --problem=parallel_text",
        "bad_value source_language target_language",
    ),
    (
        REVERSE + "--data_dir=x --problem_config=dev_length=1e12",
        "bad_value 'dev_length' 100000, 1000000000000",
    ),
    ("t2t-datagen --num_worker=2", "unknown_flag --num_worker. 'num_workers'"),
    ("t2t-datagen --num_workers=0", "bad_value --num_workers=0"),
    ("t2t-datagen --num_workers=some", "bad_value --num_workers=some"),
    (
        REVERSE + "--data_dir=x --num_workers=2 --beam_runner=DirectRunner",
        "conflicting_settings --num_workers --beam_runner",
    ),
    (
        REVERSE + "--data_dir=x --beam_pipeline_options=streaming",
        "conflicting_settings --beam_pipeline_options --beam_runner",
    ),
    ("t2t-decoder", "missing_flags --output_dir"),
    ("t2t-decoder --output_dir=nowhere", "no_run --output_dir=nowhere"),
    (DECODER + "--hparams=d_ff=32", "other_settings --output_dir=run d_ff 16 32"),
    (
        DECODER + "--checkpoint_path=run/model.ckpt-11",
        "no_checkpoint run/model.ckpt-11 model.ckpt-10",
    ),
    (DECODER + "--data_dir=nowhere", "no_data nowhere t2t-datagen"),
    (
        DECODER + "--decode_reference=x",
        "conflicting_settings --decode_reference --decode_from_file",
    ),
    (
        DECODER + "--decode_from_file=one --results_file=x",
        "conflicting_settings --results_file --decode_from_file --decode_reference",
    ),
    (DECODER + "--disturb=typos+uper", "unknown_name 'uper' 'upper'"),
    (
        DECODER + "--disturb=upper --decode_from_file=one",
        "conflicting_settings --disturb --decode_from_file --decode_reference",
    ),
    *(
        (f"{DECODER}--decode_from_file=one --shard={wrong}", f"bad_value --shard '{wrong}'")
        for wrong in ("0/3", "4/3", "a/b", "3", "1/3/5", "-1/3")
    ),
    (DECODER + "--shard=1/3", "conflicting_settings --shard --decode_from_file"),
    (DECODER + "--shard=1/3 --decode_from_file=-", "not_a_file -"),
    (DECODER + "--ensemble=nowhere", "no_checkpoint nowhere"),
    (DECODER + "--decode_from_file=- --decode_reference=one", "not_a_file -"),
    (DECODER + "--decode_to_file=-", "not_a_file -"),
    (
        DECODER + "--decode_from_file=one --forbidden_file=two --decode_to_file=two",
        "output_is_input two",
    ),
    (
        DECODER + "--decode_from_file=one --decode_to_file=o --attention_file=x --ensemble=run",
        "not_supported 2",
    ),
    (DECODER + "--forbidden_file=nowhere", "not_read nowhere"),
    (DECODER + "--decode_from_file=one --decode_reference=two", "unequal_counts one 1 two 2"),
    (DECODER + "--decode_from_file=two --decode_reference=one", "unequal_counts one 1 two 2"),
    (
        DECODER + "--eval_use_test_set --data_dir=untested",
        "no_such_split untested/parallel_text dev --eval_use_test_set",
    ),
    # The error describes a path that is not a run.
    (NO_RUN + "run/export/7", "no_run run/export/7 t2t_keras.load_export"),
    (NO_RUN + "run/export", "no_run run/export t2t_keras.load_export"),
    (NO_RUN + "ct2", "no_run ct2 --engine=ctranslate2"),
    (NO_RUN + "data/parallel_text", "no_run data/parallel_text --data_dir"),
    (NO_RUN + "run/model.ckpt-20.index", "no_run run, run/model.ckpt-20 --checkpoint_path"),
    (NO_RUN + "run/model.ckpt-20.npz", "no_run run, run/model.ckpt-20.npz --checkpoint_path"),
    (NO_RUN + "rum", "no_run --output_dir=rum 'run'"),
    (NO_RUN + ".", "no_run --output_dir=. run."),
    (NO_RUN + "one", "no_run --output_dir=one"),
    (NO_RUN + "run/export/7 --engine=ctranslate2", "no_export run/export/7 t2t_keras.load_export"),
    ("t2t-serve --model=en-de=run/export/7", "no_model run/export/7 t2t_keras.load_export"),
    ("t2t-serve --model=en-de=ct2 --engine=keras", "no_model keras ct2 --engine=ctranslate2"),
    ("t2t-compare --runs=run/export/7,run", "no_run run/export/7 t2t_keras.load_export"),
    (EVALB + "one --param=other", "bad_value --param=other COLLINS"),
    (EVALB + "nowhere", "not_read nowhere"),
    (EVALB, "missing_flags --gold"),
    (
        "t2t-exporter --output_dir=run --measure --decode_hparams=xla=true",
        "not_supported xla --decode_hparams",
    ),
    ("t2t-exporter --output_dir=run --decode_hparams=alpha=x", "bad_value 'alpha' 'x'"),
    ("t2t-exporter --output_dir=run --dtype=int4", "bad_value --dtype=int4"),
    ("t2t-exporter --output_dir=run --servable_name=\udcff", "bad_value --servable_name"),
    ("t2t-exporter --output_dir=run --data_dir=none/at/all", "no_data none/at/all/parallel_text"),
    (
        ONNX + "--measure --data_dir=data",
        "conflicting_settings --measure --data_dir --format=onnx",
    ),
    (ONNX + "--dtype=float16", "bad_value --format=onnx --dtype float32 int8 float16"),
    (ONNX + "--export_dir=run", "output_exists run --export_dir"),
    (INSIGHTS, "missing_flags --sentence --sentences_from_file"),
    (INSIGHTS + "--sentences_from_file=nowhere", "not_read nowhere"),
    (INSIGHTS + "--sentence=\udcff", "not_utf8 --sentence"),
    (INSIGHTS + "--sentence=\u3000", "blank --sentence"),
    (INSIGHTS + "--sentence=x --figure_heads=1", "conflicting_settings --figure_heads --figure."),
    (INSIGHTS + "--sentence=x --figure=a.svg --figure_heads=0,2", "bad_value 0 1, 0,2"),
    (INSIGHTS + "--sentence=x --figure=a.svg --figure_heads=a", "bad_value --figure_heads 'a'"),
    (INSIGHTS + "--sentences_from_file=two --figure=a.svg", "conflicting_settings --figure two 2"),
    (INSIGHTS + "--sentence=x --page=/proc/page.html", "not_written /proc"),
    (INSIGHTS + "--sentence=x --page=pipe", "not_a_file --page 'pipe'"),
    (INSIGHTS + "--sentences_from_file=two --page=two", "output_is_input two"),
    (INSIGHTS + "--sentences_from_file=one --figure=link.svg", "output_is_input link.svg (one)"),
    (INSIGHTS + "--sentence=x --page=run", "is_a_folder run"),
    ("t2t-plot", "bad_arguments t2t-plot"),
    ("t2t-plot nowhere run", "no_run nowhere"),
    ("t2t-plot run", "no_curves run"),
    ("t2t-plot run --over=days", "bad_value --over=days"),
    ("t2t-plot run --plot_file=plot.pdf", "unknown_extension .png, .svg 'plot.pdf'"),
    ("t2t-plot run --plot_file=run.svg", "output_belongs_to_other run.svg"),
    ("t2t-tables", "missing_flags --table"),
    (TABLES + "5", "bad_value --table=5"),
    (TABLES + "1 --r=8", "bad_value --r 8"),
    (TABLES + "1 --vocab_size=9", "conflicting_settings --table=1 --vocab_size 3"),
    (TABLES + "1 --results_file=x", "conflicting_settings --table=1 --results_file 2, 3 4"),
    (TABLES + "2 --gpus=2", "conflicting_settings --hours --step_seconds"),
    (TABLES + "2 --results_file=.", "not_read ."),
    (TABLES + "2 --results_file=nowhere", "not_read nowhere"),
    (TABLES + "2 --hours=nan", "bad_value --hours=nan"),
    (NEW + "--problem=algorithmic_identity_binary40", "missing_flags --data_dir"),
    (
        NEW + "--problem=translate_ende_toy --dry_run --hparams_set=auto",
        "missing_flags --data_dir",
    ),
    (
        NEW + "--data_dir=. --problem=translate_ende_toi",
        "unknown_name 'translate_ende_toi' 'translate_ende_toy'",
    ),
    (IDENTITY, "no_data t2t-datagen --problem=algorithmic_identity_binary40"),
    (IDENTITY + "--output_dir=", "missing_flags --output_dir"),
    (IDENTITY + "--trian_steps=5", "unknown_flag --trian_steps 'train_steps'"),
    (IDENTITY + "--train_steps=many", "bad_value --train_steps=many"),
    (IDENTITY + "stray", "bad_arguments 'stray'"),
    (IDENTITY + "--hparams=hidden_size=5", "unknown_name 'hidden_size' 'd_model'"),
    (IDENTITY + "--t2t_usr_dir=/nowhere", "bad_value --t2t_usr_dir=/nowhere"),
    (ALL + "--source=-", "not_a_file --source -:"),
    (
        ALL + "--source=x --eval_use_test_set",
        "conflicting_settings --source --eval_use_test_set",
    ),
    (ALL + "--prefix_file=/dev/null", "not_a_file --prefix_file /dev/null"),
    ("t2t-filter --source=one --target=one --output=x --forward=run", "missing_flags --keep"),
]
# Flags of which one would be ignored beside the other.
OF_A_FILE = "decode_from_file=x eval_use_test_set decode_reference=x results_file=x"
MORE = "prefix_file=x alignment_file=x attention_file=x"
REFUSED += [
    (
        f"{DECODER}--{one} --{other}",
        f"conflicting_settings --{one.split('=')[0]} --{other.split('=')[0]}",
    )
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
    (f"{command}={target}", f"{code} {target}")
    for target, code in {
        "run/vocab.model": "output_belongs_to_other",
        "data/parallel_text/train-00000.tokens.npy": "output_belongs_to_other",
        "link": "output_belongs_to_other",
        "one": "output_is_input",
    }.items()
    for command in (
        DECODER + "--decode_from_file=one --decode_to_file",
        DECODER + "--decode_from_file=one --decode_to_file=out --alignment_file",
        DECODER + "--decode_from_file=one --decode_to_file=out --attention_file",
        DECODER + "--decode_from_file=one --decode_reference=one --results_file",
        INSIGHTS + "--sentences_from_file=one --page",
        "t2t-query-server --input_file=one --server=localhost:1 --servable_name=x --output_file",
    )
] + [
    (
        "t2t-eval --output_dir=run --worker_gpu=0 --results_file=run/run.json",
        "output_belongs_to_other run/run.json",
    ),
    (
        "t2t-eval --output_dir=run --worker_gpu=0 --eval_use_test_set",
        "output_belongs_to_other run/eval_test/results.jsonl",
    ),
    # A text that is called as a checkpoint.
    (
        ALL + "--source=model.ckpt --translations_dir=run",
        "output_belongs_to_other run/model.ckpt-<step>",
    ),
    (
        ALL + "--source=one --translations_dir=texts --forbidden_file=texts/one.json",
        "output_is_input texts/one.json",
    ),
    ("t2t-exporter --output_dir=run --export_dir=run", "output_belongs_to_other run"),
    (
        "t2t-serve --model=en-de=run --glossary=en-de=terms --glossary=en-de=terms",
        "given_twice --glossary=en-de=terms",
    ),
    (
        "t2t-serve --model=en-de=run --glossary=terms --glossary=terms",
        "given_twice --glossary=terms",
    ),
    ("t2t-serve --model=en-de=run --key=one", "conflicting_settings --certificate --key"),
    ("t2t-serve --model=en-de=run --certificate=one", "conflicting_settings --certificate --key"),
    (
        "t2t-exporter --output_dir=run --export_dir=data/parallel_text",
        "output_belongs_to_other data/parallel_text",
    ),
    (
        "t2t-exporter --output_dir=run --export_dir=run/export/7",
        "output_belongs_to_other run/export/7/<version>",
    ),
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


@pytest.mark.parametrize(("command", "error"), REFUSED)
def test_refused(folder, refused, monkeypatch, command, error):
    if "--figure" in command:
        pytest.importorskip("matplotlib", reason="needs matplotlib")
    # It is refused before any work.
    monkeypatch.delattr(Translator, "translate_stream")
    before = contents(folder)
    refused(error, *filter(None, command.split(" ")))
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
import importlib, json, sys
sys.modules.update(tensorflow=None, keras=None, jax=None)
for argv in json.loads(sys.argv[1]):
    module = importlib.import_module(f"t2t_keras.bin.{argv[0].replace('-', '_')}")
    try:
        module.run(argv)
    except SystemExit as stop:
        print(stop.__cause__.code, file=sys.stderr)
    print(end="\\0", file=sys.stderr)
"""


def without_keras(commands):
    """What commands print, and each says, with its code, where Keras and TensorFlow are missing."""
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
    for (command, error), each in zip(quick, said, strict=True):
        code, *names = error.split()
        assert each.splitlines()[-1] == code, each
        assert not [name for name in names if name not in each], command


def test_help_does_not_import_keras():
    names = [module.name for module in pkgutil.iter_modules(commands_of.__path__)]
    names = [name.replace("_", "-") for name in names if name.startswith("t2t")]
    printed, said = without_keras([f"{name} --help" for name in names])
    assert said == [""] * len(names)
    assert printed.count("--helpfull shows all flags.") == len(names)
