"""README, docs/ and the demo: scripts and examples run, links lead somewhere, figures are right."""

import os
import random
import re
import runpy
import shlex
import subprocess

import numpy as np
import pytest
import tensorflow as tf
import yaml
from commands import call
from document_blocks import blocks, recorded_calls, write_stubs
from small_wmt import write_archives
from tiny_runs import PAIRS
from toy_treebank import as_mrg, random_tree
from upper_case import UpperCase

from t2t_keras import experiment, hyperparameters, registry
from t2t_keras.decoding.line_job import Shard
from t2t_keras.decoding.translator import Translator
from t2t_keras.problems.translate_toy import TranslateEndeToy
from t2t_keras.serving.signatures import TranslationModule
from t2t_keras.training.backends.cluster import Cluster, cluster_from_environment


@pytest.mark.parametrize("name", ["slurm.sh", "slurm_translate.sh"])
def test_the_slurm_scripts_are_bash(root, name):
    subprocess.run(["bash", "-n", root / "docs" / name], check=True)


def test_the_slurm_script_translates_what_is_missing(root, tmp_path):
    script = root / "docs" / "slurm_translate.sh"
    shard = Shard(7, int(re.search(r"^#SBATCH --array=1-(\d+)%", script.read_text(), re.M)[1]))
    # Stand-ins: srun without its option, and an interrupted decoder.
    for name, text in {
        "srun": 'shift; exec "$@"',
        "t2t-decoder": 'echo "$@"; exit 143',
        "scontrol": 'echo "$@"',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    slurm = {"SLURM_ARRAY_TASK_ID": "7", "SLURM_CPUS_PER_TASK": "8", "SLURM_JOB_ID": "12"}
    environment = os.environ | slurm | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def run():
        command = ["bash", script]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    done = run()
    flags, requeued = done.stdout.splitlines()
    assert (done.returncode, requeued) == (143, "requeue 12")
    output = re.search(r"--decode_to_file=(\S+)", flags)[1]
    assert Shard.parse(re.search(r"--shard=(\S+)", flags)[1]) == shard
    (tmp_path / shard.path(output)).touch()
    done = run()
    assert (done.returncode, done.stdout) == (0, f"{shard.path(output)} is complete.\n")


def test_the_examples_of_documents_and_terms(root, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "messages.po").write_text('msgid "Open"\nmsgstr ""\n')
    units = "".join(f'<tuv xml:lang="{code}"><seg>Shut</seg></tuv>' for code in ("en", "de"))
    (tmp_path / "old.tmx").write_text(f"<tmx><body><tu>{units}</tu></body></tmx>")
    (tmp_path / "terms.tsv").write_text("dog\tKöter\n")
    monkeypatch.setattr(Translator, "from_run", lambda *arguments, **options: UpperCase())
    text, names = (root / "docs" / "documents.md").read_text(encoding="utf-8"), {}
    shown = []
    for example in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(example, names)
        shown.append(capsys.readouterr().out)
    documents, terms, markup, placeholders = shown
    assert "1 translated" in documents
    assert "THE <i>OLD" in markup
    assert (terms, placeholders) == ("", "")
    [use] = names["translation"].notes["terms"]
    assert (use.match.term.target, use.kind) == ("Köter", "exact")


def test_the_list_of_experiments_is_complete(root):
    listed = (root / "experiments" / "README.md").read_text(encoding="utf-8")
    for readme in (root / "experiments").glob("*/README.md"):
        question = readme.read_text(encoding="utf-8").split("\n")[0].removeprefix("# ")
        assert f"- [{question}]({readme.parent.name}/README.md)\n" in listed


def test_the_demo_deletes_no_folder_but_its_own(root, tmp_path):
    (tmp_path / "thesis.tex").touch()
    demo = subprocess.run([root / "examples" / "demo.sh", tmp_path], capture_output=True, text=True)
    assert (demo.returncode, demo.stderr.count(str(tmp_path))) == (2, 1)
    assert (tmp_path / "thesis.tex").exists()


def test_the_kubernetes_job_names_each_worker(root):
    service, job = yaml.safe_load_all((root / "docs" / "kubernetes_job.yaml").read_text())
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert pod["subdomain"] == service["metadata"]["name"]
    (rule,), (container,) = spec["podFailurePolicy"]["rules"], pod["containers"]
    assert rule["onExitCodes"]["containerName"] == container["name"]
    script = re.sub(r"exec t2t-trainer[^$]*", 'printf %s "$TF_CONFIG"', container["args"][0])
    environment = os.environ | {"JOB_COMPLETION_INDEX": "2"}
    command = [*container["command"], script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    cluster = cluster_from_environment({"TF_CONFIG": done.stdout})
    assert len(cluster.addresses) == spec["completions"] == spec["parallelism"]
    assert cluster.index == 2
    assert cluster.addresses[3] == f"{job['metadata']['name']}-3.{pod['subdomain']}:2222"


def test_the_ssh_script_starts_a_worker_on_each_host(root, tmp_path):
    # A stand-in for ssh, which runs the command here, and for the trainer.
    for name, text in {
        "ssh": 'shift; exec bash -c "$1"',
        "t2t-trainer": 'printf "%s\\n" "$TF_CONFIG"; exit 75',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["bash", root / "docs" / "ssh.sh", "one", "two", "three"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 75, done.stderr
    for index in range(3):
        config = (tmp_path / "logs" / f"worker-{index}.log").read_text()
        expected = Cluster(("one:2222", "two:2222", "three:2222"), index)
        assert cluster_from_environment({"TF_CONFIG": config}) == expected
        assert (tmp_path / "logs" / f"worker-{index}.pid").read_text().strip().isdigit()


def test_the_docs_hold_the_estimate_as_computed(root):
    scaling = runpy.run_path(root / "experiments" / "scaling" / "scaling.py")
    text = (root / "experiments" / "scaling" / "README.md").read_text()
    assert "\n".join(scaling["expected_rows"]()) in text
    for name, weights in scaling["WEIGHTS"].items():
        assert hyperparameters.hparams(f"transformer_{name}").count_weights(37_000) == weights


@pytest.fixture
def small(own_registry, monkeypatch):
    """What the examples name is small, and an export has one signature."""
    sizes = dict(num_layers=1, d_model=8, d_ff=8, num_heads=2, train_steps=2)
    tiny = hyperparameters.hparams("transformer_tiny", sizes)
    for name in ("transformer_tiny", "transformer_base", "transformer_parsing_base"):
        registry.HPARAMS_SETS.entries[name] = lambda: tiny
    monkeypatch.setattr(experiment, "recommended_hparams", lambda *_, **options: tiny)
    monkeypatch.setattr(experiment, "_seconds_per_step", lambda *_: 1.0)
    monkeypatch.setattr(TranslateEndeToy, "sizes", {"train": 400, "dev": 5, "test": 5})
    signatures = TranslationModule.signatures
    only = lambda module: {"serving_default": signatures(module)["serving_default"]}  # noqa: E731
    monkeypatch.setattr(TranslationModule, "signatures", only)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.mark.usefixtures("small")
def test_the_examples_in_python(root, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    text = (root / "docs" / "python.md").read_text(encoding="utf-8")
    for number, less in (("train_steps=1200", "train_steps=4"), ("frequency=100", "frequency=2")):
        assert number in text
        text = text.replace(number, less)
    defined = {}
    for source in re.findall(r"^```python\n(.*?)```", text, re.M | re.S):
        # Building a graph takes longer than the few steps.
        tf.config.run_functions_eagerly("export(" not in source)
        exec(source, defined)
    assert defined["result"].history["step"] == [2, 4]
    for key in re.findall(r"^\| (`.*`) \|", text, re.M):
        assert set(re.findall(r"`(\w+)`", key)) <= {*defined["result"].history, "val_bleu"}
    assert len((tmp_path / "toy.csv").read_text().splitlines()) == 3
    assert (tmp_path / "history.png").stat().st_size
    assert repr(defined["translation"]).startswith("Translation('")
    assert list((tmp_path / "exports" / "toy").glob("*/manifest.json"))
    logits = tf.saved_model.load(tmp_path / "exports" / "logits")
    inputs = {side: tf.constant(defined[side], tf.int32) for side in ("source", "target")}
    np.testing.assert_allclose(logits.serve(inputs), defined["model"](inputs), atol=1e-5)


# What the blocks of the pages below write, and what they print last.
PAGES = {
    "README.md": (["news.de", "runs/toy/run.json"], "Translation("),
    "docs/own_text.md": (["news.de", "mine.weights.h5", "train.tsv"], "BLEU"),
    "docs/concepts.md": ([], ""),
    "docs/paper.md": (["section23.trees", "out.trees", "runs/ende_mean/run.json"], "FMeasure"),
    "docs/troubleshooting.md": ([], "no_run"),
}
# Changes that make the blocks run in seconds.
LESS = {
    "vocab_size=8000": "vocab_size=300",
    "--problem=translate_ende ": "--problem=translate_ende --problem_config=vocab_size=400 ",
    "--problem=parsing_wsj ": "--problem=parsing_wsj --problem_config=vocab_size=340 ",
    "--train_steps=100000": "--train_steps=2",
    "--n=5 --seconds_apart=600": "--n=1",
    "t2t-decoder ": "t2t-decoder --decode_hparams=beam_size=2,max_length=9 ",
    'from_run("runs/toy")': 'from_run("runs/toy", decode_hparams="extra_length=2")',
    # tests/core/serving exports.
    "t2t-exporter --output_dir=runs/averaged --export_dir=export --measure\n": "",
    "ckpt-1000": "ckpt-2",
}


def write_texts(folder):
    """Writes what the blocks of the pages read, a few lines each."""
    for split, pairs in (("train", PAIRS * 20), ("dev", PAIRS)):
        for side, language in enumerate(("en", "de")):
            file = folder / "text" / f"{split}.{language}"
            file.parent.mkdir(exist_ok=True)
            file.write_text("".join(f"{pair[side]}\n" for pair in pairs))
    (folder / "news.en").write_text("A man sleeps.\n")
    (folder / "news.reference.de").write_text("Ein Mann schläft.\n")
    for side, language in enumerate(("en", "de")):
        lines = [f"{pair[side]}\n" for pair in PAIRS * 2000]
        (folder / f"all.{language}").write_text("".join(lines))
    (folder / "sentences").write_text("the dog sees the cat\n")
    write_archives(folder / "archives")
    generator = random.Random(5)
    for section in ("02", "22", "23"):
        file = folder / "treebank_3" / "wsj" / section / f"wsj_{section}00.mrg"
        file.parent.mkdir(parents=True)
        file.write_text("".join(as_mrg(random_tree(generator)) for _ in range(20)))


@pytest.mark.usefixtures("small", "eagerly")
@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run(root, page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path)
    stubs, names = write_stubs(tmp_path / "stubs"), {}
    for block in blocks(root):
        if block.page != page or block.reason:
            continue
        text = block.text
        for more, less in LESS.items():
            text = text.replace(more, less)
        if block.language == "python":
            exec(text, names)
        elif block.language == "sh":
            records = tmp_path / f"calls-{block.line}"
            records.mkdir()
            for arguments, _ in recorded_calls(text, tmp_path, stubs, records):
                call(shlex.join(arguments))
    files, shown = PAGES[page]
    assert [file for file in files if not (tmp_path / file).exists()] == []
    assert shown in capsys.readouterr().out


@pytest.mark.parametrize("page", ["README.md", "SECURITY.md", "CONTRIBUTING.md"])
def test_the_links_of_pages_beside_the_site(root, page):
    text = (root / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^):]+)\)", text) + re.findall(r'src="([^"]+)"', text)
    assert [link for link in links if not (root / link.partition("#")[0]).exists()] == []


def test_the_readme_is_read_in_one_go(root):
    assert (root / "README.md").read_text(encoding="utf-8").count("\n") <= 90


def test_the_page_of_errors_has_codes_that_exist(root):
    headings = re.findall(r"^### .*", (root / "docs/troubleshooting.md").read_text(), re.M)
    codes = {code for heading in headings for code in re.findall(r"`(\w+)`", heading)}
    files = [*root.glob("t2t_keras/**/*.py"), *root.glob("problems/*.py")]
    known = {code for file in files for code in re.findall(r'code="(\w+)"', file.read_text())}
    assert len(headings) == 20
    assert codes <= known
