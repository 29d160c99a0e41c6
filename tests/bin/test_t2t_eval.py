"""Scores of each checkpoint, against those of the commands that do one."""

import contextlib
import dataclasses
import json
import shutil

import pytest
import sacrebleu
import tensorflow as tf

from t2t_keras.bin import t2t_eval
from t2t_keras.data.generate import generate
from t2t_keras.data.generated import open_generated
from t2t_keras.decoding.translator import Translator
from t2t_keras.tables.results import read_results
from t2t_keras.training.checkpoints import load_weights
from t2t_keras.training.following import Patience
from t2t_keras.training.run_record import RunRecord

FAST = "--decode_hparams=beam_size=1,extra_length=2"


def evaluate(*arguments):
    t2t_eval.run(["t2t-eval", FAST, "--worker_gpu=0", *map(str, arguments)])


def points(directory):
    """Returns the points of TensorBoard's curves, by name."""
    found = {}
    for file in sorted(directory.glob("events*")):
        for record in tf.data.TFRecordDataset(str(file)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                point = event.step, float(tf.make_ndarray(value.tensor))
                found.setdefault(value.tag, []).append(point)
    return found


def test_each_checkpoint_once(random_run, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(random_run, run)
    late = list(run.glob("model.ckpt-30*"))
    for file in late:
        file.unlink()
    evaluate(f"--output_dir={run}", "--min_steps=20")
    for file in late:
        shutil.copy(random_run / file.name, run)
    # The run is given more steps, which is no other run.
    record = json.loads((run / "run.json").read_text())
    record["hparams"]["train_steps"] = 777
    (run / "run.json").write_text(json.dumps(record))
    evaluate(f"--output_dir={run}", "--min_steps=20")
    results = read_results(run / "eval_dev" / "results.jsonl")
    assert [result.steps for result in results] == [20, 30]
    record = RunRecord.load(run)
    sources, references = open_generated(record.problem, record.data_dir).text("dev")
    translator = Translator.from_run(run, decode_hparams=FAST.partition("=")[2])
    for result in results:
        load_weights(translator.models[0], run / f"model.ckpt-{result.steps}")
        lines = [translation.text for translation in translator.translate(sources)]
        expected = sacrebleu.corpus_bleu(lines, [references]).score
        assert result.bleu == pytest.approx(expected, abs=1e-3)
        pairs = translator.score(sources, references)
        entropy = -sum(pair.log_prob for pair in pairs)
        entropy /= sum(len(pair.token_log_probs) for pair in pairs)
        assert result.loss == pytest.approx(entropy, rel=1e-4)
        assert (result.split, result.decode["beam_size"]) == ("dev", 1)
        assert "tok:13a" in result.bleu_signature
        assert result.date
    curves = points(run / "eval_dev")
    assert set(curves) == {"loss", "perplexity", "accuracy", "bleu"}
    assert curves["loss"] == [
        (result.steps, pytest.approx(result.loss, rel=1e-5)) for result in results
    ]
    printed = capsys.readouterr().out
    assert printed.count("dev at step 20: loss ") == 1
    assert "1 checkpoints of earlier" in printed
    assert "BLEU|nrefs:1|" in printed


def test_test_set_and_file_of_results(random_run, tmp_path, capsys):
    run, results = tmp_path / "run", tmp_path / "results.jsonl"
    shutil.copytree(random_run, run)
    flags = [f"--output_dir={run}", f"--results_file={results}", "--min_steps=30", "--noeval_bleu"]
    evaluate(*flags, "--eval_use_test_set")
    evaluate(*flags)
    test, dev = read_results(results)
    assert (test.split, dev.split) == ("test", "dev")
    assert (test.bleu, test.bleu_signature, test.decode) == (None, "", {})
    assert test.perplexity != dev.perplexity
    assert set(points(run / "eval_test")) == {"loss", "perplexity", "accuracy"}
    line = json.loads(results.read_text().splitlines()[0])
    assert set(line) == {field.name for field in dataclasses.fields(test)}

    # Another test set than the run was trained beside is another text, with its name.
    text = random_run.parent
    for language in ("en", "de"):
        shutil.copy(text / f"dev.{language}", tmp_path / f"news.{language}")
    config = f"test={tmp_path / 'news'}"
    record = RunRecord.load(run)
    problem = dataclasses.replace(record.problem, test=str(tmp_path / "news"))
    generate(problem, tmp_path / "data", text)
    flags += ["--eval_use_test_set", f"--problem_config={config}"]
    capsys.readouterr()
    evaluate(*flags, f"--data_dir={tmp_path / 'data'}")
    name = f"{tmp_path / 'news'} (3 lines)"
    assert f"{name} at step 30: loss " in capsys.readouterr().out
    news = read_results(results)[2]
    assert (news.split, news.text, news.loss) == ("test", name, pytest.approx(dev.loss))
    # The run's own data has the other test set.
    with pytest.raises(SystemExit):
        evaluate(*flags)
    assert "test=test there, test=" in capsys.readouterr().err


def test_runs_with_one_file_of_results(random_run, tmp_path):
    results = tmp_path / "results.jsonl"
    flags = ["--min_steps=30", "--noeval_bleu"]
    for name in ("run", "mean"):
        shutil.copytree(random_run, tmp_path / name)
        evaluate(f"--output_dir={tmp_path / name}", f"--results_file={results}", *flags)
    evaluate(f"--output_dir={tmp_path / 'run'}", f"--results_file={results}", *flags)
    assert len(read_results(results)) == 2
    # Another file gets what was scored before.
    other = tmp_path / "other.jsonl"
    evaluate(f"--output_dir={tmp_path / 'run'}", f"--results_file={other}", *flags)
    assert read_results(other) == read_results(results)[:1]


def test_started_before_the_training(random_run, tmp_path, monkeypatch):
    def start_training(_):
        shutil.copytree(random_run, tmp_path / "run")

    patience = Patience(wait_minutes=1e-3, poll_seconds=0.01, sleep=start_training)
    monkeypatch.setattr(t2t_eval, "patience", lambda flags: patience)
    with contextlib.suppress(FileExistsError):  # It waits once more, at the end.
        evaluate(f"--output_dir={tmp_path / 'run'}", "--min_steps=30", "--noeval_bleu")
    assert read_results(tmp_path / "run" / "eval_dev" / "results.jsonl")[0].steps == 30


def test_no_checkpoint(random_run, capsys):
    with pytest.raises(SystemExit) as caught:
        evaluate(f"--output_dir={random_run}", "--min_steps=40", "--noeval_bleu")
    assert caught.value.code == 2
    assert "that could be scored" in capsys.readouterr().err
