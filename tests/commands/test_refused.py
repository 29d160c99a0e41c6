"""What commands refuse: in one message, with status 2, without output, and nothing is written."""

import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys

import pytest
from commands import modules_of_commands

from t2t_keras import bin as commands_of
from t2t_keras.decoding.translator import Translator

DECODER, INSIGHTS = "t2t-decoder --output_dir=run ", "t2t-insights --output_dir=run "
DISTURBED = DECODER + "--disturb=upper --decode_to_file=out --results_file="
BLEU, TABLES = "t2t-bleu --translation=one --reference=", "t2t-tables --table="
NEW = "t2t-trainer --hparams_set=transformer_tiny --output_dir=new "
IDENTITY = NEW + "--data_dir=. --problem=algorithmic_identity_binary40 "
REVERSE = "t2t-datagen --problem=algorithmic_reverse_binary40 "
ONNX = "t2t-exporter --output_dir=nowhere --format=onnx "
NO_RUN = "t2t-decoder --output_dir="
ALL = "t2t-translate-all --output_dir=run "
EVALB = "t2t-evalb --test=one --gold="
# By the code of the error: a command, and the names and values that the error has.
CASES = f"""
missing_flags
  t2t-avg-all => --model_dir --output_dir
  t2t-bleu --reference=x => --translation
  t2t-datagen => --problem --data_dir
  t2t-decoder => --output_dir
  {EVALB} => --gold
  {INSIGHTS} => --sentence --sentences_from_file
  t2t-tables => --table
  {NEW}--problem=algorithmic_identity_binary40 => --data_dir
  {NEW}--problem=translate_ende_toy --dry_run --hparams_set=auto => --data_dir
  {IDENTITY}--output_dir= => --output_dir
  t2t-query-server --server=localhost:1 --inputs_once=a => --servable_name
  t2t-query-server --servable_name=x --inputs_once=a => --server
  t2t-serve --port=0 => --model
  t2t-filter --forward=run => --source --target --keep --output
  t2t-import => --from --model --output_dir --problem

output_exists
  t2t-avg-all --model_dir=run --output_dir=run => --output_dir=run run.json
  {ONNX}--export_dir=run => run --export_dir

bad_value
  t2t-avg-all --model_dir=run --output_dir=x --n=0 => --n=0
  {BLEU}one --convention=tokenised => tokenised ''
  {BLEU}one --convention=tokenised --language=germn => 'germn' 'german'
  t2t-datagen --data_dir=x --tmp_dir=. --problem=parallel_text => source_language target_language
  {REVERSE}--data_dir=x --problem_config=dev_length=1e12 => 'dev_length' 100000, 1000000000000
  t2t-datagen --num_workers=0 => --num_workers=0
  t2t-datagen --num_workers=some => --num_workers=some
  {EVALB}one --param=other => --param=other COLLINS
  t2t-exporter --output_dir=run --decode_hparams=alpha=x => 'alpha' 'x'
  t2t-exporter --output_dir=run --dtype=int4 => --dtype=int4
  t2t-serve --model=en-de=run --port=65536 => --port 65535
  t2t-exporter --output_dir=run --servable_name=\udcff => --servable_name
  {ONNX}--dtype=float16 => --format=onnx --dtype float32 int8 float16
  {INSIGHTS}--sentence=x --figure=a.svg --figure_heads=0,2 => 0 1, 0,2
  {INSIGHTS}--sentence=x --figure=a.svg --figure_heads=a => --figure_heads 'a'
  t2t-plot run --over=days => --over=days
  {TABLES}5 => --table=5
  {TABLES}1 --r=8 => --r 8
  {TABLES}2 --hours=nan => --hours=nan
  {IDENTITY}--train_steps=many => --train_steps=many
  {IDENTITY}--t2t_usr_dir=/nowhere => --t2t_usr_dir=/nowhere

no_checkpoint
  {DECODER}--checkpoint_path=run/model.ckpt-11 => run/model.ckpt-11 model.ckpt-10
  {DECODER}--ensemble=nowhere => nowhere

not_read
  {BLEU}nowhere => nowhere
  {DECODER}--forbidden_file=nowhere => nowhere
  {EVALB}nowhere => nowhere
  {INSIGHTS}--sentences_from_file=nowhere => nowhere
  {TABLES}2 --results_file=. => .
  {TABLES}2 --results_file=nowhere => nowhere

unequal_counts
  {BLEU}two => 1 2
  {DECODER}--decode_from_file=one --decode_reference=two => one 1 two 2
  {DECODER}--decode_from_file=two --decode_reference=one => one 1 two 2

unknown_name
  {BLEU}one --convention=tokenized => 'tokenized' 'tokenised'
  t2t-datagen --data_dir=x --problem=algoritmic_reverse => 'algorithmic_reverse_binary40'
  {DECODER}--disturb=typos,uper => 'uper' 'upper'
  {NEW}--data_dir=. --problem=translate_ende_toi => 'translate_ende_toi' 'translate_ende_toy'
  {ONNX}--format=onxx --measure => 'onxx' 'onnx' --t2t_usr_dir
  {DECODER}--engine=ctranslate => 'ctranslate' 'ctranslate2'
  t2t-serve --model=en-de=run --engine=ctranslate => 'ctranslate' 'ctranslate2'
  t2t-filter --source=one --target=one --keep=1 --output=x --forward=run --engine=kears => 'keras'
  {IDENTITY}--hparams=hidden_size=5 => 'hidden_size' 'd_model'

conflicting_settings
  {BLEU}one --convention=tokenised --language=de --tokenize=none => --convention --tokenize
  {BLEU}one --translations_dir=x => --translation --translations_dir
  {BLEU}one --min_steps=1 => --min_steps --translations_dir
  {REVERSE}--data_dir=x --num_workers=2 --beam_runner=DirectRunner => --num_workers --beam_runner
  {REVERSE}--data_dir=x --beam_pipeline_options=streaming => --beam_pipeline_options --beam_runner
  {DECODER}--decode_reference=x => --decode_reference --decode_from_file
  {DECODER}--decode_from_file=one --results_file=x => --results_file --decode_reference
  {DECODER}--disturb=upper --decode_from_file=one => --disturb --decode_from_file --decode_reference
  {DECODER}--shard=1/3 => --shard --decode_from_file
  {ONNX}--measure --data_dir=data => --measure --data_dir --format=onnx
  {INSIGHTS}--sentence=x --figure_heads=1 => --figure_heads --figure.
  {INSIGHTS}--sentence=x --figure_layer=0 => --figure_layer --figure.
  {INSIGHTS}--sentences_from_file=two --figure=a.svg => --figure two 2
  {TABLES}1 --vocab_size=9 => --table=1 --vocab_size 3
  {TABLES}1 --results_file=x => --table=1 --results_file 2, 3 4
  {TABLES}2 --gpus=2 => --hours --step_seconds
  {ALL}--source=x --eval_use_test_set => --source --eval_use_test_set
  t2t-serve --model=en-de=run --key=one => --certificate --key
  t2t-serve --model=en-de=run --certificate=one => --certificate --key

unknown_flag
  {BLEU}one --problem=translate_ende => --problem
  t2t-datagen --num_worker=2 => --num_worker. 'num_workers'
  {IDENTITY}--trian_steps=5 => --trian_steps 'train_steps'

no_translations
  t2t-bleu --translations_dir=nowhere --reference=one => nowhere

output_is_input
  t2t-bleu --translations_dir=texts --reference=texts/results.jsonl => results.jsonl
  t2t-bleu --translations_dir=run --event_dir=texts --reference=texts/results.jsonl => results.jsonl
  {DECODER}--decode_from_file=one --forbidden_file=two --decode_to_file=two => two
  {INSIGHTS}--sentences_from_file=two --page=two => two
  {INSIGHTS}--sentences_from_file=one --figure=link.svg => link.svg (one)
  {ALL}--source=one --translations_dir=texts --forbidden_file=texts/one.json => texts/one.json

no_run
  t2t-decoder --output_dir=nowhere => --output_dir=nowhere
  {NO_RUN}run/export/7 => run/export/7 t2t_keras.load_export
  {NO_RUN}run/export => run/export t2t_keras.load_export
  {NO_RUN}ct2 => ct2 --engine=ctranslate2
  t2t-serve --model=en-de=ct2 --engine=keras => ct2 --engine=ctranslate2
  {NO_RUN}data/parallel_text => data/parallel_text --data_dir
  {NO_RUN}run/model.ckpt-20 => run, run/model.ckpt-20 --checkpoint_path
  {NO_RUN}rum => --output_dir=rum 'run'
  {NO_RUN}. => --output_dir=. run.
  {NO_RUN}one => --output_dir=one
  t2t-compare --runs=run/export/7,run => run/export/7 t2t_keras.load_export
  t2t-plot nowhere run => nowhere

other_settings
  {DECODER}--hparams=d_ff=32 => --output_dir=run d_ff 16 32

no_data
  {DECODER}--data_dir=nowhere => nowhere t2t-datagen
  t2t-exporter --output_dir=run --data_dir=none/at/all => none/at/all/parallel_text
  {IDENTITY} => t2t-datagen --problem=algorithmic_identity_binary40

not_a_file
  {DECODER}--shard=1/3 --decode_from_file=- => -
  {DECODER}--decode_from_file=- --decode_reference=one => -
  {DECODER}--decode_to_file=- => -
  {INSIGHTS}--sentence=x --page=pipe => --page 'pipe'
  {ALL}--source=- => --source '-'
  {ALL}--prefix_file=/dev/null => --prefix_file /dev/null

not_supported
  {DECODER}--decode_from_file=one --decode_to_file=o --attention_file=x --ensemble=run => 2
  t2t-exporter --output_dir=run --measure --decode_hparams=xla=true => xla --decode_hparams

no_such_split
  {DECODER}--eval_use_test_set --data_dir=untested => untested/parallel_text dev --eval_use_test_set

no_export
  {NO_RUN}run/export/7 --engine=ctranslate2 => run/export/7 t2t_keras.load_export

no_model
  t2t-serve --model=en-de=run/export/7 => run/export/7 t2t_keras.load_export

not_utf8
  {INSIGHTS}--sentence=\udcff => --sentence

blank
  {INSIGHTS}--sentence=\u3000 => --sentence

not_written
  {INSIGHTS}--sentence=x --page=/proc/page.html => /proc

is_a_folder
  {INSIGHTS}--sentence=x --page=run => run

bad_arguments
  t2t-plot => t2t-plot
  t2t-recipe => t2t-recipe
  t2t-recipe student one two => 'student one two'
  {IDENTITY}stray => 'stray'

no_curves
  t2t-plot run => run

unknown_extension
  t2t-plot run --plot_file=plot.pdf => .png, .svg 'plot.pdf'

output_belongs_to_other
  t2t-plot run --plot_file=run.svg => run.svg
  t2t-eval --output_dir=run --worker_gpu=0 --results_file=run/run.json => run/run.json
  t2t-eval --output_dir=run --worker_gpu=0 --eval_use_test_set => run/eval_test/results.jsonl
  {ALL}--source=model.ckpt --translations_dir=run => run/model.ckpt-<step>
  t2t-exporter --output_dir=run --export_dir=run => run
  t2t-exporter --output_dir=run --export_dir=data/parallel_text => data/parallel_text
  t2t-exporter --output_dir=run --export_dir=run/export/7 => run/export/7/<version>

output_twice
  {DISTURBED}out => out
  {DISTURBED}out.upper => out.upper
  {DISTURBED}out.upper.source => out.upper.source
  {DISTURBED}out.disturbed.json => out.disturbed.json
  {DISTURBED}out.upper.reference => out.upper.reference

given_twice
  t2t-serve --model=en-de=run --glossary=en-de=terms --glossary=en-de=terms => en-de=terms
  t2t-serve --model=en-de=run --glossary=terms --glossary=terms => --glossary=terms
"""
REFUSED = [
    (line.partition(" => ")[0].lstrip(), f"{code} {line.partition(' => ')[2]}")
    for code, *lines in (block.split("\n") for block in CASES.strip().split("\n\n"))
    for line in lines
]
REFUSED += [
    (f"{DECODER}--decode_from_file=one --shard={wrong}", f"bad_value --shard '{wrong}'")
    for wrong in ("0/3", "4/3", "a/b", "3", "1/3/5", "-1/3")
]
# Flags of which one would be ignored beside the other.
OF_A_FILE = "decode_from_file=x eval_use_test_set decode_reference=x results_file=x"
MORE = "prefix_file=x alignment_file=x attention_file=x"
STAGES = "glossary=x minimum_bayes_risk=x whole_trees=x"
REFUSED += [
    (
        f"{DECODER}--{one} --{other}",
        f"conflicting_settings --{one.split('=')[0]} --{other.split('=')[0]}",
    )
    for one, excluded in {
        "decode_interactive": f"{OF_A_FILE} {MORE} decode_to_file=x score_file=x",
        "score_file=x": f"{OF_A_FILE} {MORE} forbidden_file=x {STAGES}",
        "eval_use_test_set": "decode_from_file=x",
        "disturb=upper": f"decode_interactive score_file=x {STAGES} {MORE}",
        "shard=1/3": "decode_reference=x disturb=upper results_file=x",
    }.items()
    for other in excluded.split(" ")
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
    "t2t-bleu --translations_dir",
    "t2t-eval --output_dir=run",
    "t2t-exporter --output_dir=run --data_dir=none",
    "t2t-exporter --output_dir=run --measure",
    INSIGHTS + "--sentence=x --page=pipe",
    TABLES + "1 --r=8",
    DISTURBED,
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
for name, argv in json.loads(sys.argv[1]):
    module = importlib.import_module(name)
    try:
        module.run(argv)
    except SystemExit as stop:
        print(stop.__cause__.code, file=sys.stderr)
    print(end="\\0", file=sys.stderr)
"""


def without_keras(commands):
    """What commands print, and each says, with its code, where Keras and TensorFlow are missing."""
    modules = modules_of_commands()
    argvs = [list(filter(None, command.split(" "))) for command in commands]
    calls = json.dumps([(modules[program], [program, *flags]) for program, *flags in argvs])
    call = [sys.executable, "-c", WITHOUT_KERAS, calls]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.split("\0")[:-1]


@pytest.mark.usefixtures("folder")
def test_most_is_refused_before_keras_is_imported():
    quick = [case for case in REFUSED if not case[0].startswith(WITH_KERAS)]
    quick = [case for case in quick if "--figure" not in case[0]]
    printed, messages = without_keras([command for command, _ in quick])
    assert printed == ""
    for (command, error), message in zip(quick, messages, strict=True):
        code, *names = error.split()
        assert message.splitlines()[-1] == code, message
        assert not [name for name in names if name not in message], command


def test_help_does_not_import_keras():
    names = [module.name for module in pkgutil.iter_modules(commands_of.__path__)]
    names = [name.replace("_", "-") for name in names if name.startswith("t2t")]
    printed, messages = without_keras([f"{name} --help" for name in names])
    assert messages == [""] * len(names)
    assert len(re.findall(r"^ {0,4}--helpfull ", printed, flags=re.MULTILINE)) == len(names)
