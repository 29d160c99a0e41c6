"""The recipe for a student: its plan, and its commands from raw text to the page."""

import importlib.util
import itertools
import json
import re
import shlex
import subprocess
import sysconfig
from pathlib import Path

import pytest
import yaml
from commands import module_of
from refusals import refused
from snakemake.cli import get_argument_parser

from t2t_keras.io.files import locked_directory
from t2t_keras.io.flags import Flags
from t2t_keras.problems.translate_toy import TranslateEndeToy
from t2t_keras.recipes import running, t2t_recipe
from t2t_keras.recipes.student.checks import check
from t2t_keras.recipes.student.plan import Plan
from t2t_keras.training.run_config import TrainOptions

TINY = dict(batch_tokens=256, d_ff=8, d_model=8, max_length=64, num_heads=1, num_layers=1)
MODEL = {"hparams_set": "transformer_tiny", "hparams": TINY, "train_steps": 2}
CONFIG = {
    "source_language": "en",
    "target_language": "de",
    "corpora": {"toy": "text/train"},
    "monolingual": {"news": "text/news"},
    "dev": {"toy": "text/dev"},
    "vocab_size": 400,
    "backward": MODEL,
    "teachers": MODEL,
    "student": MODEL,
    "baseline": False,
    "average": 1,
    "dtype": "float32",
}


@pytest.fixture(scope="module")
def pairs():
    return list(itertools.islice(TranslateEndeToy(name="toy").examples("train"), 600))


@pytest.fixture
def configured(tmp_path, pairs):
    """configured(**changes): the path of a configuration, with its texts beside it."""
    (tmp_path / "text").mkdir()
    texts = {
        "train": pairs[:300],
        "web": pairs[300:360],
        "news": pairs[360:380],
        "dev": pairs[-20:],
    }
    for name, some in texts.items():
        for code, side in zip(("en", "de"), zip(*some, strict=True), strict=True):
            (tmp_path / "text" / f"{name}.{code}").write_text("".join(f"{line}\n" for line in side))

    def configure(**changes):
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(CONFIG | changes))
        return path

    return configure


@pytest.mark.usefixtures("eagerly")  # For two steps, graphs of four models would take longer.
def test_every_command_from_text_to_page(configured, tmp_path, monkeypatch, own_registry):
    """What Snakemake would run in processes of their own runs here in one."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "filters_of_my_own.py").write_text(
        "import t2t_keras as t2t\n@t2t.register_filter\ndef nothing(source, target): return False\n"
    )
    path = configured(
        t2t_usr_dir="mine",
        filters=["nothing"],
        teachers=MODEL | {"hparams": TINY | {"num_layers": 2}},
        student=MODEL | {"from_teacher": True},
        distillation={"with_corpora": True},
    )
    command = [*running._snakemake("student", path), "--cores", "1"]
    command += ["--dry-run", "--printshellcmds"]
    plan = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    commands = re.findall("^Shell command: ((?!None).*)$", plan, flags=re.MULTILINE)
    commands = [word for command in commands for word in command.split(" && ")]
    (tmp_path / "work" / "text").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for program, *flags in map(shlex.split, commands):
        if program == "ln":
            subprocess.run([program, *flags], check=True)
        else:
            module_of(program).run([program, *flags])
    work = tmp_path / "work"
    page = (work / "evaluation" / "dev.toy.html").read_text()
    assert all(name in page for name in ("student", "teacher1"))
    actual = json.loads((work / "data" / "teacher" / "parallel_text" / "manifest.json").read_text())
    counts = actual["splits"]["train"]["corpora"]
    # What is drawn may be blank.
    assert counts["toy"] == 300
    assert 10 < counts["bt.news"] <= 20
    manifest = json.loads(
        (work / "data" / "student" / "parallel_text" / "manifest.json").read_text()
    )
    assert manifest["splits"]["train"]["corpora"] == {"toy": 300, "distilled.toy": 285}
    sources = (tmp_path / "text" / "train.en").read_text().splitlines()
    assert set((work / "text" / "distilled.toy.en").read_text().splitlines()) <= set(sources)


COMMANDS = """
t2t-datagen --problem=parallel_text --tmp_dir=work/text --data_dir=work/data/forward
    --problem_config='source_language=en,target_language=de,train=[toy, clean.web],dev=dev.toy,filters=[length_ratio],vocab_size=400,vocab_symbols=<BT>'
    --norecommend
t2t-datagen --problem=parallel_text --tmp_dir=work/text --data_dir=work/data/filter.backward
    --problem_config='source_language=de,target_language=en,train=[toy],dev=dev.toy,filters=[length_ratio],vocab_file=work/data/filter.forward/parallel_text/vocab.model'
    --norecommend
t2t-trainer --output_dir=work/runs/teacher2 --problem=parallel_text --data_dir=work/data/teacher
    '--problem_config=source_language=en,target_language=de,train=[toy, clean.web, bt.news],dev=dev.toy,filters=[length_ratio],source_tokens={bt.news: <BT>},mix={bt.news: 0.2, clean.web: 0.3, toy: 0.5},vocab_file=work/data/forward/parallel_text/vocab.model'
    --hparams_set=transformer_tiny
    --hparams=batch_tokens=256,d_ff=8,d_model=8,max_length=64,num_heads=1,num_layers=1
    --train_steps=1000000000 --random_seed=2 --save_checkpoints_secs=9 --keep_checkpoint_max=3
t2t-trainer --output_dir=work/runs/student --problem=parallel_text --data_dir=work/data/student
    '--problem_config=source_language=en,target_language=de,train=[distilled.toy, distilled.clean.web],dev=dev.toy,filters=[length_ratio],vocab_file=work/data/forward/parallel_text/vocab.model'
    --hparams_set=transformer_tiny
    --hparams=batch_tokens=256,d_ff=8,d_model=8,max_length=64,num_heads=1,num_layers=1
    --train_steps=2 --random_seed=1 --warm_start_from=work/models/teacher1 --drop_layers
t2t-filter --source=work/text/web.en --target=work/text/web.de
    --forward=work/exports/filter.forward --backward=work/exports/filter.backward
    --engine=ctranslate2 --keep=0.5 --output=work/text/clean.web
t2t-avg-all --model_dir=work/runs/student --output_dir=work/models/student --n=3
t2t-exporter --output_dir=work/models/student --export_dir=work/exports/student
    --format=ctranslate2 --dtype=float32
t2t-decoder --output_dir=work/exports/backward --engine=ctranslate2
    --decode_hparams=samples=1,top_k=7 --decode_from_file=work/text/bt.news.de
    --decode_to_file=work/text/bt.news.en
t2t-decoder --output_dir=work/models/teacher1 --ensemble=work/models/teacher2
    --decode_hparams=beam_size=3 --decode_from_file=work/text/toy.en
    --decode_to_file=work/translated/toy.de
t2t-filter --source=work/text/toy.en --target=work/translated/toy.de
    --forward=work/exports/teacher1 --engine=ctranslate2 --keep=0.7
    --output=work/text/distilled.toy
t2t-compare --runs=work/exports/baseline,work/exports/student,work/exports/teacher1,work/exports/teacher2
    --translations=work/translated/dev.toy.de --names=baseline,student,teacher1,teacher2,teachers
"""  # noqa: E501


def test_what_is_left_to_do(configured, capsys, monkeypatch):
    """All steps are there, with the hours of those that take long; several teachers too."""
    run, printed = subprocess.run, []

    def run_and_keep(command, **options):
        done = run([*command, "--printshellcmds"], **options)
        printed.append(done.stdout + done.stderr)
        return done

    monkeypatch.setattr(subprocess, "run", run_and_keep)
    teachers = MODEL | {"seeds": [1, 2], "train_steps": 10**9}
    noisy = {"web": ["text/web", 0.5]}
    student = MODEL | {"from_teacher": True}
    path = configured(
        noisy=noisy,
        teachers=teachers,
        student=student,
        baseline=True,
        average=3,
        filters=["length_ratio"],
        mix={"toy": 0.5, "clean.web": 0.3, "bt.news": 0.2},
        save_checkpoints_secs=9,
        back_translation={"decode_hparams": {"samples": 1, "top_k": 7}},
        distillation={"filter": "forward", "keep": 0.7, "decode_hparams": {"beam_size": 3}},
    )
    t2t_recipe.run(["t2t-recipe", "student", str(path), "--dry-run"])
    rows = [line.split(maxsplit=3) for line in capsys.readouterr().out.splitlines()]
    files = [row[3] for row in rows]
    hours = {row[3]: float(row[0]) for row in rows}
    *parts, total = (float(row[0]) for row in rows)
    assert total == pytest.approx(sum(parts), abs=0.05 * len(rows))  # All are rounded.
    assert "text" not in {row[2] for row in rows}
    # Two jobs for one page would translate into the same files at the same time.
    assert [row[2] for row in rows].count("evaluate") == 1
    assert files.index("work/text/clean.web.de") < files.index("work/runs/teacher2.trained")
    assert files.index("work/translated/clean.web.de") < files.index("work/runs/student.trained")
    assert "work/runs/baseline.trained" in files
    assert hours["work/runs/teacher2.trained"] > 10
    assert hours["work/runs/student.trained"] == 0  # Ten seconds, rounded.
    for command in re.split(r"\n(?=t2t)", COMMANDS.strip()):
        assert " ".join(command.split()) in " ".join(printed[0].split())
    plan = Plan(yaml.safe_load(path.read_text()), path.parent)
    # All is asked for: Snakemake would not miss what a killed job has removed.
    assert set(files[:-1]) <= set(plan.outputs)
    # The baseline differs in what it reads, and in nothing else.
    pairs = zip(plan.training_flags("baseline"), plan.training_flags("student"), strict=True)
    changed = [one.partition("=")[0] for one, other in pairs if one != other]
    assert changed == ["--data_dir", "--problem_config"]
    assert plan.teacher_flags == [
        "--output_dir=work/models/teacher1",
        "--ensemble=work/models/teacher2",
    ]


@pytest.mark.parametrize(
    ("changes", "code", "names"),
    [
        ({"studnt": {}}, "bad_configuration", ["'studnt'"]),
        ({"vocab_size": "many"}, "bad_configuration", ["['vocab_size']: 'many'", "'integer'"]),
        ({"noisy": {"web": ["text/web", 2]}}, "bad_configuration", ["['noisy']['web'][1]: 2 "]),
        ({"corpora": {"a b": "text/train"}}, "bad_configuration", ["['corpora']: 'a b'"]),
        ({"target_language": False}, "bad_configuration", ["['target_language']: False", "quotes"]),
        ({"vocab_size": "x" * 999}, "bad_configuration", ["xx ... xx"]),
        ({"t2t_usr_dir": "text"}, "bad_value", ["--t2t_usr_dir=", "text"]),
        ({"target_language": "en"}, "bad_value", [" en "]),
        ({"noisy": {"toy": ["text/web", 0.5]}}, "given_twice", ["toy:"]),
        ({"work_dir": "a,b"}, "bad_configuration", ["['work_dir']: 'a,b'"]),
        ({"work_dir": "{x}"}, "bad_configuration", ["['work_dir']: '{x}'"]),
        ({"work_dir": "-x"}, "bad_configuration", ["['work_dir']: '-x'"]),
        ({"work_dir": "work\n"}, "bad_configuration", ["['work_dir']: 'work\\n'"]),
        ({"source_language": "en\n"}, "bad_configuration", ["['source_language']: 'en\\n'"]),
        ({"source_language": "-en"}, "bad_configuration", ["['source_language']: '-en'"]),
        ({"corpora": {"toy\n": "text/train"}}, "bad_configuration", ["['corpora']: 'toy\\n'"]),
        (
            {"corpora": {"toy": "-text/train"}},
            "bad_configuration",
            ["['corpora']['toy']: '-text/train'"],
        ),
        ({"dev": {"toy": "{x}/dev"}}, "bad_configuration", ["['dev']['toy']: '{x}/dev'"]),
        ({"noisy": {"web": ["-web", 0.5]}}, "bad_configuration", ["['noisy']['web'][0]: '-web'"]),
        ({"noisy": {"web": ["text/web", float("nan")]}}, "bad_configuration", []),
        ({"t2t_usr_dir": "-x"}, "bad_configuration", ["['t2t_usr_dir']: '-x'"]),
        ({"back_translation": {"tag": "<BT>\n"}}, "bad_configuration", ["['tag']: '<BT>\\n'"]),
        ({"dtype": "int9"}, "bad_configuration", ["['dtype']: 'int9'"]),
        ({"back_translation": {"tag": "BT"}}, "bad_configuration", ["['tag']: 'BT'"]),
        ({"dev": {"toy": "text/short"}}, "unequal_counts", ["short.en has 20 ", "short.de has 1."]),
        ({"monolingual": {"news": "text/latin1"}}, "not_utf8", ["latin1.de:2 "]),
        ({"corpora": {"toy": "text/other"}}, "missing_source_files", ["text/other.en"]),
        pytest.param(
            {"corpora": {"toy": "text/swapped"}},
            "swapped_languages",
            [" toy "],
            marks=pytest.mark.skipif(
                not importlib.util.find_spec("py3langid"), reason="needs py3langid"
            ),
        ),
        pytest.param(
            {"monolingual": {"news": "text/swapped"}},
            "wrong_language",
            ["swapped.de", "'de'", "'en'"],
            marks=pytest.mark.skipif(
                not importlib.util.find_spec("py3langid"), reason="needs py3langid"
            ),
        ),
        ({"monolingual": {"none": "text/empty"}}, "no_text", ["text/empty.de"]),
        ({"monolingual": {"none": "text/blank"}}, "no_text", ["text/blank.de"]),
        ({"dev": {"none": "text/blank"}}, "no_text", ["text/blank.en"]),
        (
            {"student": MODEL | {"hparams": TINY | {"lora_rank": 2}}},
            "conflicting_settings",
            ["student:", "from_teacher: true"],
        ),
        (
            {"teachers": MODEL | {"hparams": TINY | {"lora_rank": 2, "trainable": ["decoder.*"]}}},
            "conflicting_settings",
            ["teacher1:", "lora_rank=2"],
        ),
        (
            {"backward": MODEL | {"hparams": TINY | {"trainable": "encodr.*"}}},
            "unknown_name",
            ["'encodr.*'"],
        ),
        ({"teachers": MODEL | {"seeds": [2**40]}}, "bad_configuration", [" 1099511627776 "]),
        ({"mix": {"bt.other": 0.5, "toy": 0.5}}, "unknown_name", ["bt.other"]),
        ({"student": MODEL | {"hparams": {"d_modl": 8}}}, "unknown_name", ["d_modl"]),
        (
            {"teachers": MODEL | {"hparams_set": "transformer_tny"}},
            "unknown_name",
            ["transformer_tny"],
        ),
        (
            {"student": MODEL | {"hparams": TINY | {"d_ff": 16}, "from_teacher": True}},
            "other_settings",
            ["student:", "from_teacher"],
        ),
        (
            {
                "student": MODEL
                | {"hparams": TINY | {"num_decoder_layers": 2}, "from_teacher": True}
            },
            "other_settings",
            ["student:", "from_teacher"],
        ),
        (
            {"student": MODEL | {"hparams": TINY | {"activation": "gelu"}, "from_teacher": True}},
            "other_settings",
            ["activation=gelu", "activation=relu"],
        ),
        (
            {"filters": ["length_ratio", "dupplicates"]},
            "unknown_name",
            ["'dupplicates'", "'duplicates'"],
        ),
        (
            {"trainer_flags": {"xla": True, "eval_stps": 3}},
            "bad_flags",
            ["trainer_flags:", "--eval_stps", "'eval_steps'"],
        ),
        (
            {"trainer_flags": {"best_by": "bleu"}},
            "conflicting_settings",
            ["trainer_flags:", "--best_by=bleu", "--eval_bleu"],
        ),
        (
            {"trainer_flags": {"best_by": "blue", "eval_bleu": True}},
            "bad_value",
            ["trainer_flags:", "--best_by=blue"],
        ),
        (
            {"trainer_flags": {"drop_layers": True}},
            "bad_flags",
            ["trainer_flags:", "--drop_layers"],
        ),
        (
            {"trainer_flags": {"output-dir": "/tmp/x"}},
            "bad_flags",
            ["trainer_flags:", "--output_dir"],
        ),
        ({"trainer_flags": {"schedule": "evaluate"}}, "bad_flags", ["--schedule=evaluate"]),
        ({"trainer_flags": {"dry_run": True, "worker_gpu": 0}}, "bad_flags", ["--dry_run"]),
        ({"save_checkpoints_secs": -1}, "bad_configuration", [" -1 ", " 0"]),
        (
            {"noisy": {"web": ["text/short", 0.5]}},
            "unequal_counts",
            ["short.en has 20 ", "short.de has 1."],
        ),
        (
            {"student": MODEL | {"hparams": {"self_attention_radius": 4}}},
            "not_supported",
            ["radius=4"],
        ),
        ({"distillation": {"decode_hparams": {"beams": 4}}}, "unknown_name", ["beams"]),
        (
            {"distillation": {"decode_hparams": {"return_beams": True}}},
            "bad_value",
            ["distillation", "decode_hparams"],
        ),
        (
            {"back_translation": {"decode_hparams": {"samples": 1, "seed": 2}}},
            "not_supported",
            ["seed"],
        ),
        (
            {"distillation": {"decode_hparams": {"extra_length": 99}}},
            "bad_value",
            [" 562 ", " 611."],
        ),
        (
            {"distillation": {"decode_hparams": {"write_beam_scores": True}}},
            "bad_value",
            ["distillation", "decode_hparams"],
        ),
        (
            # Several teachers translate without CTranslate2, the other direction's model with it.
            {
                "teachers": MODEL | {"seeds": [1, 2]},
                "distillation": {"decode_hparams": {"samples": 1, "seed": 2}},
                "back_translation": {"decode_hparams": {"samples": 1, "seed": 2}},
            },
            "not_supported",
            ["seed"],
        ),
    ],
)
def test_what_is_refused_before_anything_is_made(
    configured, changes, code, names, tmp_path, monkeypatch
):
    path = configured(**changes)
    monkeypatch.delattr(running.os, "execve")
    (tmp_path / "text" / "empty.de").touch()
    for language in ("en", "de"):
        (tmp_path / "text" / f"blank.{language}").write_text("\n \n\n")
    (tmp_path / "text" / "short.en").write_text("a\n" * 20)
    (tmp_path / "text" / "short.de").write_text("a\n")
    for one, other in (("en", "de"), ("de", "en")):
        (tmp_path / "text" / f"swapped.{one}").symlink_to(f"train.{other}")
    (tmp_path / "text" / "latin1.de").write_bytes("ä\n".encode() + b"\xe4\n")
    with refused(code, *names):
        running.run_recipe("student", path)
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize(
    ("changes", "is_refused"),
    [
        ({"average": 1, "save_checkpoints_secs": 0, "corpora": {"toy": "text/train"}}, False),
        (
            {"noisy": {"web": ["text/web", 1]}, "distillation": {"keep": 1}, "monolingual": {}},
            False,
        ),
        ({"back_translation": {"tag": ""}, "t2t_usr_dir": "", "vocab_size": 1}, False),
        ({"teachers": MODEL | {"seeds": [0, 2**32 - 1]}}, False),
        ({"average": 0}, True),
        ({"vocab_size": 0}, True),
        ({"corpora": {}}, True),
        ({"dev": {}}, True),
        ({"noisy": {"web": ["text/web"]}}, True),
        ({"noisy": {"web": ["text/web", 0]}}, True),
        ({"noisy": {"web": ["text/web", 0.5, 0.5]}}, True),
        ({"distillation": {"keep": 0}}, True),
        ({"distillation": {"filter": "both"}}, True),
        ({"distillation": {"kep": 1}}, True),
        ({"back_translation": {"tag": "<B,T>"}}, True),
        ({"back_translation": {"tag": "<B+T>"}}, True),
        ({"teachers": MODEL | {"seeds": []}}, True),
        ({"teachers": MODEL | {"seeds": [1, 1]}}, True),
        ({"teachers": MODEL | {"seeds": [-1]}}, True),
        ({"backward": MODEL | {"train_steps": 0}}, True),
        ({"student": MODEL | {"seeds": [1]}}, True),
        ({"backward": MODEL | {"from_teacher": True}}, True),
        ({"trainer_flags": ["--xla"]}, True),
    ],
)
def test_limits_of_a_configuration(configured, changes, is_refused):
    path = configured()
    if is_refused:
        with refused("bad_configuration"):
            Plan(CONFIG | changes, path.parent)
    else:
        Plan(CONFIG | changes, path.parent)


def test_what_is_left_out_of_a_configuration(configured):
    needed = ("source_language", "target_language", "corpora", "dev", "vocab_size")
    needed = {name: CONFIG[name] for name in (*needed, "backward", "teachers", "student")}
    plan = Plan(needed, configured().parent)
    assert {name: value for name, value in plan.config.items() if name not in needed} == {
        **dict(work_dir="work", noisy={}, monolingual={}, filters=[], mix={}, baseline=True),
        **dict(
            average=5, save_checkpoints_secs=600, trainer_flags={}, t2t_usr_dir="", dtype="int8"
        ),
        "back_translation": {"decode_hparams": {"samples": 1, "top_k": 10}, "tag": "<BT>"},
        "distillation": {
            **dict(
                decode_hparams={"beam_size": 4}, filter="backward", keep=0.95, with_corpora=False
            )
        },
    }
    mixed = Plan(needed | {"mix": {"toy": 1}}, plan.folder)
    models = {name for name in mixed.models if ",mix={toy: 1}" in mixed.training_flags(name)[2]}
    assert models == {"teacher1"}
    assert plan.teachers == ["teacher1"]
    assert not plan.models["student"].warm_start_from
    # One teacher's translations of a dev set are those of the page.
    assert "work/translated/dev.toy.de" not in plan.outputs


def test_flags_that_trainings_do_not_take(configured, monkeypatch, own_registry):
    """Those that the recipe sets itself, and those with which the trainer does something else."""
    path = configured(t2t_usr_dir="mine")
    plan = Plan(yaml.safe_load(path.read_text()), path.parent)
    (path.parent / "mine").mkdir()
    (path.parent / "mine" / "of_a_student.py").touch()
    own = "output_dir problem problem_config data_dir model hparams_set hparams random_seed"
    own += " train_steps warm_start_from save_checkpoints_secs keep_checkpoint_max t2t_usr_dir"
    switches = "adapt_vocabulary drop_layers dry_run help helpfull registry_help version"
    values = dict.fromkeys(own.split(), 1) | dict.fromkeys(switches.split(), True)
    for name, value in values.items():
        plan.config["trainer_flags"] = {name: value}
        with refused("bad_flags", "trainer_flags:", f"--{name}"):
            check(plan)


@pytest.mark.parametrize(("average", "max_checkpoints"), [(1, 2), (2, 2), (7, 7)])
def test_as_many_checkpoints_are_kept_as_become_a_model(configured, average, max_checkpoints):
    path = configured(average=average, trainer_flags={"xla": True, "best_by": "a b"})
    plan = Plan(yaml.safe_load(path.read_text()), path.parent)
    assert plan.saving_flags[1:] == [
        f"--keep_checkpoint_max={max_checkpoints}",
        "--best_by=a b",
        "--xla=True",
    ]


def test_a_list_in_trainer_flags_is_what_the_trainer_reads(configured):
    path = configured(trainer_flags={"profile_steps": [100, 110]})
    plan = Plan(yaml.safe_load(path.read_text()), path.parent)
    flags = Flags()
    flags.fields(TrainOptions, "profile_steps")
    flags.parse(["t2t-trainer", *plan.trainer_flags])
    assert flags.profile_steps == ["100", "110"]


@pytest.mark.parametrize(
    ("back_settings", "backs", "settings", "ways", "judge"),
    [
        ({"samples": 2}, 2, {"beam_size": 3}, 3, "teacher1"),
        ({"beam_size": 5}, 5, {"samples": 7}, 7, "backward"),
    ],
)
def test_hours_are_those_of_the_products(configured, back_settings, backs, settings, ways, judge):
    path = configured(
        noisy={"web": ["text/web", 0.5]},
        backward=MODEL | {"hparams": TINY | {"d_ff": 16}},
        teachers=MODEL | {"seeds": [1, 2], "train_steps": 3},
        student=MODEL | {"hparams": TINY | {"d_ff": 24}, "train_steps": 4},
        back_translation={"decode_hparams": back_settings},
        distillation={
            "decode_hparams": settings,
            "filter": "backward" if judge == "backward" else "forward",
        },
    )
    plan = Plan(yaml.safe_load(path.read_text()), path.parent)
    hours = plan.hours(seconds_per_product=3600.0)
    weights = {name: plan.hparams(name).count_weights(400) for name in plan.models}
    teacher, backward, student = (weights[name] for name in ("teacher1", "backward", "student"))
    assert teacher < backward < student
    tokens = {
        name: (path.parent / "text" / file).stat().st_size / 4
        for name, file in {"toy": "train.en", "web": "web.en", "news": "news.de"}.items()
    }
    expected = {
        "runs/teacher1.trained": 4.5 * 256 * 3 * teacher,
        "runs/backward.trained": 4.5 * 256 * 2 * backward,
        "runs/student.trained": 4.5 * 256 * 4 * student,
        "text/bt.news.en": backs * tokens["news"] * backward,
        "text/clean.web.de": 2 * tokens["web"] * backward,
        "translated/clean.web.de": 2 * ways * tokens["web"] * teacher,
        "text/distilled.clean.web.de": tokens["web"] * weights[judge],
        "translated/toy.de": 2 * ways * tokens["toy"] * teacher,
        "text/distilled.toy.de": tokens["toy"] * weights[judge],
    }
    assert {file: hours[f"work/{file}"] for file in expected} == pytest.approx(expected)


def test_recipes_that_are_not_there_or_run_already(configured, tmp_path, monkeypatch):
    path = configured()
    with refused("unknown_name", "'studnt'", " student."):
        running.run_recipe("studnt", path)
    with refused("not_read", "nowhere.yaml"):
        running.run_recipe("student", tmp_path / "nowhere.yaml")
    with locked_directory(tmp_path / "work", "t2t-recipe"), refused("in_use", "t2t-recipe"):
        running.run_recipe("student", path)
    failed = subprocess.CompletedProcess([], 1, "", "no plan\n")
    monkeypatch.setattr(running.subprocess, "run", lambda *_, **options: failed)
    with refused("recipe_failed", "no plan"):
        running.describe("student", path)
    monkeypatch.setattr(running.importlib.util, "find_spec", lambda name: None)
    with refused("missing_package", "'.[recipe]'"):
        running.run_recipe("student", path)


def test_a_tilde_is_the_home_directory(configured, tmp_path, monkeypatch):
    configured()
    monkeypatch.setenv("HOME", str(tmp_path))
    noisy, corpora = {"web": ["~/text/web", 0.5]}, {"toy": "~/text/train"}
    plan = Plan(CONFIG | dict(corpora=corpora, noisy=noisy, t2t_usr_dir="~/mine"), tmp_path)
    assert plan.user_flags == [f"--t2t_usr_dir={tmp_path / 'mine'}"]
    assert plan.user_files["work/text/web.de"] == str(tmp_path / "text" / "web.de")


def test_a_profile_of_ones_own_comes_before_that_of_the_recipe(
    configured, tmp_path, monkeypatch, root, capsys
):
    path, commands = configured(), []

    def execve(_, command, environment):
        commands.append(command)
        # This Python's commands, whatever else is there; and one lock, which ends with its process.
        assert environment["PATH"].split(":")[0] == sysconfig.get_path("scripts")
        assert "--nolock" in command

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running.os, "execve", execve)
    running.run_recipe("student", path, profile="slurm")
    (tmp_path / "slurm").mkdir()
    for profile in ("slurm", "./slurm"):
        running.run_recipe("student", path, profile=profile)
    # Cores would limit the threads of the jobs of a cluster.
    assert not any("--cores" in command for command in commands)
    first, *further = (Path(command[command.index("--profile") + 1]) for command in commands)
    assert first.samefile(root / "recipes" / "student" / "slurm")
    assert further == [Path("slurm")] * 2
    for cores, profile, expected in ((3, "slurm", "3"), (3, "", "3"), (None, "", "all")):
        running.run_recipe("student", path, cores, profile)
        assert commands[-1][commands[-1].index("--cores") + 1] == expected
        assert ("--profile" in commands[-1]) == bool(profile)
    flags = "--dry_run", "--cores=2", "--profile=slurm"
    with pytest.raises(SystemExit) as exit_:
        t2t_recipe.run(["t2t-recipe", "student", str(path), *flags])
    assert exit_.value.__cause__.code == "conflicting_settings"
    error = capsys.readouterr().err
    assert all(flag in error for flag in ("--dry_run", "--cores", "--profile"))


def test_the_profile_for_slurm_has_options_of_snakemake(root):
    folder = root / "recipes" / "student"
    profile = yaml.safe_load((folder / "slurm" / "config.yaml").read_text())
    known = {
        option for action in get_argument_parser()._actions for option in action.option_strings
    }
    assert {f"--{name}" for name in profile} <= known
    rules = re.findall(r"^rule (\w+):", (folder / "Snakefile").read_text(), flags=re.MULTILINE)
    assert set(profile["set-resources"]) <= set(rules)


def test_the_example_is_short_and_complete(root, tmp_path, capsys):
    t2t_recipe.run(["t2t-recipe", "student"])
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 40
    (tmp_path / "text").mkdir()
    for name in ("train.en", "train.de", "news.de", "dev.en", "dev.de"):
        (tmp_path / "text" / name).write_text("a\n")
    schema = yaml.safe_load((root / "recipes" / "student" / "schema.yaml").read_text())
    config = yaml.safe_load(text)
    Plan(config, tmp_path)
    assert config.keys() >= schema["properties"].keys() - {"trainer_flags", "t2t_usr_dir"}
