"""Scores of each checkpoint, against those of the commands that do one."""

import dataclasses
import json
import re
import shutil

import pytest
import sacrebleu
import tensorflow as tf

from t2t_keras.bin import t2t_eval
from t2t_keras.data.dataset import open_generated
from t2t_keras.decoding.translator import Translator
from t2t_keras.evaluation.results import read_results
from t2t_keras.io.files import locked_directory
from t2t_keras.training.checkpoint_files import PollPolicy
from t2t_keras.training.checkpoints import load_weights
from t2t_keras.training.run_config import RunConfig

pytestmark = pytest.mark.usefixtures("eagerly")

FAST = "--decode_hparams=beam_size=1,extra_length=2,max_length=6"


@pytest.fixture
def run(random_run, tmp_path):
    """A copy of a run."""
    return shutil.copytree(random_run, tmp_path / "run")


def evaluate(run, *flags):
    t2t_eval.run(["t2t-eval", FAST, "--worker_gpu=0", f"--output_dir={run}", *flags])


def points(directory):
    """Returns the points of TensorBoard's curves, by name."""
    actual = {}
    for file in sorted(directory.glob("events*")):
        for record in tf.data.TFRecordDataset(str(file)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                point = event.step, float(tf.make_ndarray(value.tensor))
                actual.setdefault(value.tag, []).append(point)
    return actual


def test_each_checkpoint_once(random_run, run, capsys):
    late = list(run.glob("model.ckpt-30*"))
    for file in late:
        file.unlink()
    evaluate(run, "--min_steps=20")
    for file in late:
        shutil.copy(random_run / file.name, run)
    # The run is given more steps, which is no other run.
    record = json.loads((run / "run.json").read_text())
    record["hparams"]["train_steps"] = 777
    (run / "run.json").write_text(json.dumps(record))
    with locked_directory(run, "t2t-trainer"):
        evaluate(run, "--min_steps=20")
    results = read_results(run / "eval_dev" / "results.jsonl")
    assert [result.steps for result in results] == [20, 30]
    record = RunConfig.load(run)
    sources, references = open_generated(record.problem, record.data_dir).text("dev")
    translator = Translator.from_run(run, decode_hparams=FAST.partition("=")[2])
    for result in results:
        load_weights(translator.models[0], run / f"model.ckpt-{result.steps}")
        lines = [translation.text for translation in translator.translate(sources)]
        # A random model's BLEU is 0 however it decodes; its chrF tells lengths and beams apart.
        expected = sacrebleu.corpus_chrf(lines, [references]).score
        assert result.chrf == pytest.approx(expected, abs=1e-3)
        pairs = translator.score(sources, references)
        entropy = -sum(pair.log_prob for pair in pairs)
        entropy /= sum(len(pair.token_log_probs) for pair in pairs)
        assert result.loss == pytest.approx(entropy, rel=1e-4)
        assert (result.split, result.decode["beam_size"]) == ("dev", 1)
    curves = points(run / "eval_dev")
    assert set(curves) == {"loss", "perplexity", "accuracy", "bleu"}
    assert curves["loss"] == [
        (result.steps, pytest.approx(result.loss, rel=1e-5)) for result in results
    ]
    printed = capsys.readouterr().out
    # Step 20 is scored once, and counted the second time.
    assert len(re.findall(r"^dev .*\b20: loss ", printed, re.M)) == 1
    counts = re.findall(rf"^{run / 'eval_dev' / 'results.jsonl'}: (\d+) ", printed, re.M)
    assert counts == ["1", "1", "2"]
    assert "BLEU|nrefs:1|" in printed


def test_splits_and_runs_with_one_file_of_results(run, tmp_path, capsys):
    def measure(run, file, *flags):
        flags = [f"--results_file={tmp_path / file}", "--min_steps=30", "--noeval_bleu", *flags]
        evaluate(run, *flags)
        return read_results(tmp_path / file)

    [test] = measure(run, "results.jsonl", "--eval_use_test_set")
    _, dev = measure(run, "results.jsonl")
    assert (test.split, dev.split) == ("test", "dev")
    assert (test.bleu, test.bleu_signature, test.decode) == (None, "", {})
    assert test.perplexity != dev.perplexity
    assert set(points(run / "eval_test")) == {"loss", "perplexity", "accuracy"}
    other = shutil.copytree(run, tmp_path / "other", ignore=shutil.ignore_patterns("eval_*"))
    # But for the shortest, its three pairs are not in the loss.
    record = RunConfig.load(other)
    text = open_generated(record.problem, record.data_dir).text("dev")
    pairs = zip(*map(record.vocabulary.encode, text), strict=True)
    shortest = min(max(map(len, pair)) for pair in pairs)
    shorter = dataclasses.replace(record.hparams, max_length=shortest)
    dataclasses.replace(record, hparams=shorter).save(other)
    capsys.readouterr()
    *_, result = results = measure(other, "results.jsonl")
    assert (len(results), result.loss != dev.loss) == (3, True)
    assert capsys.readouterr().out.startswith("2 dev pairs ")
    # What was scored before is added once, by whichever run.
    assert len(measure(run, "results.jsonl")) == 3
    assert measure(run, "new.jsonl") == [dev]


def test_started_before_the_training(random_run, tmp_path, monkeypatch):
    def start_training(_):
        # It waits once more, at the end.
        shutil.copytree(random_run, tmp_path / "run", dirs_exist_ok=True)

    policy = PollPolicy(wait_minutes=1e-3, poll_seconds=0.01, sleep=start_training)
    monkeypatch.setattr(t2t_eval, "poll_policy", lambda flags: policy)
    file = tmp_path / "run" / "eval_dev" / "results.jsonl"
    same = f"--results_file={file.parent / '..' / 'eval_dev' / file.name}"
    evaluate(tmp_path / "run", "--min_steps=30", "--noeval_bleu", same)
    assert [result.steps for result in read_results(file)] == [30]


def test_only_one_process_scores_a_split(run, refused):
    flags = [f"--output_dir={run}", "--noeval_bleu", "--worker_gpu=0"]
    with locked_directory(run / "eval_dev", "it"):
        refused(f"in_use {run / 'eval_dev'} it,", "t2t-eval", *flags)
