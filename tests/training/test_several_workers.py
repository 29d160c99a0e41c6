"""Several processes that train together: as one machine, and again after a fault."""

import contextlib
import copy
import dataclasses
import json
import random
import re
import signal
import socket
import time

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training import worker_identity as identity
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.cluster import Cluster
from t2t_keras.training.memory import step_memory
from t2t_keras.training.tensorflow_step import TensorFlowStep
from t2t_keras.training.train_options import TrainOptions
from t2t_keras.training.trainer import train
from t2t_keras.training.worker_identity import worker_identity
from t2t_keras.training.worker_meeting import differences
from t2t_keras.versions import installed_versions

STEPS = 16
SIZE = "num_layers=1,d_model=16,d_ff=32,num_heads=2,warmup_steps=10,max_length=32,batch_tokens=300"
SIZE += ",microbatch_tokens=40"


def free_addresses(count):
    """Returns addresses whose ports, and the first one's watch port, were free a moment ago."""
    while True:
        first = random.randrange(20_000, 30_000)
        addresses = tuple(f"localhost:{first + number}" for number in range(count))
        watch_port = Cluster(addresses, 0).watch_address[1]
        with contextlib.ExitStack() as taken, contextlib.suppress(OSError):
            for port in (*range(first, first + count), watch_port):
                taken.enter_context(socket.create_server(("localhost", port)))
            return list(addresses)


@pytest.fixture
def start(start_trainer, tmp_path):
    """Returns a function that starts so many workers; returns them and their addresses.

    `memory` has for each worker what its `TrainerProcess` is to pretend.
    """

    def start(name, workers, devices, *more, memory=None):
        addresses = free_addresses(workers)
        together = []
        for index in range(workers):
            task = {"type": "worker", "index": index}
            cluster = {"cluster": {"worker": addresses}, "task": task}
            flags = (f"--train_steps={STEPS}", f"--hparams={SIZE}", *more)
            together.append(
                start_trainer(
                    tmp_path / name,
                    *flags,
                    cluster=cluster,
                    devices=devices,
                    **(memory[index] if memory else {}),
                )
            )
        return together, addresses

    return start


@pytest.fixture(scope="module")
def one_machine(make_record, make_strategy, generated, tmp_path_factory):
    """The same run on four replicas of this process: its directory, and its weights by step."""
    directory, weights = tmp_path_factory.mktemp("one machine"), {}

    class Step(TensorFlowStep):
        def update(self, number, parts, measure_gradient=False):
            sums = super().update(number, parts, measure_gradient)
            values = [np.ravel(weight.numpy()) for weight in self.model.trainable_variables]
            weights[number + 1] = np.concatenate(values)
            return sums

    def make_step(record, **options):
        return Step(record.make_model, record.hparams, make_strategy(4), 1)

    record = make_record(train_steps=STEPS, microbatch_tokens=40)
    train(record, generated, directory, make_step, TrainOptions())
    return directory, weights


def test_updates_are_those_of_one_machine_and_continue_bit_for_bit_after_kills(
    start, one_machine, tmp_path, everything_in, newest_step
):
    together, _ = start("never stopped", 2, 2, "--schedule=train_and_evaluate", "--eval_bleu")
    outputs = [process.said() for process in together]
    assert all("on 4 replica(s)" in output for output in outputs)
    checkpoint = tf.train.latest_checkpoint(str(tmp_path / "never stopped"))
    expected = everything_in(checkpoint)

    directory, _ = one_machine
    alone = everything_in(f"{directory}/model.ckpt-{STEPS}")
    np.testing.assert_allclose(expected, alone, atol=1e-5)
    ours, theirs = (
        json.loads((each / "evaluations.json").read_text())
        for each in (tmp_path / "never stopped", directory)
    )
    # The chief alone translates, and the others wait.
    assert set(ours) - set(theirs) == {"bleu", "score"}
    assert {name: ours[name] for name in theirs} == pytest.approx(theirs, rel=1e-5)
    assert (tmp_path / "never stopped" / "train").is_dir(), "the chief's curves"

    run, done, saves = tmp_path / "killed", 0, ["--save_checkpoints_secs=0"]
    for victim, name in ((1, "Worker 1 ("), (0, "Worker 0 (the chief, ")):
        together, addresses = start("killed", 2, 2, *saves)
        before, at = done, random.randrange(done + 1, done + 5)
        end = time.monotonic() + 240
        while newest_step(run) < at:
            assert time.monotonic() < end
            together[0].check_running()
            time.sleep(0.001)
        together[victim].kill()
        said = together[1 - victim].said(75)
        assert f"{name}{addresses[victim]}) was killed or crashed" in said
        assert not before or f"Continuing from {run}/model.ckpt-{before}." in said
        done = newest_step(run)
        assert at <= done < STEPS, "killed before the end"
        # A chief that is gone may not have told of its last one; but what it told of is whole.
        again = f"The same command on every machine continues from {run}/model.ckpt-"
        told = int(said.partition(again)[2].partition(".")[0])
        assert told == done or (victim == 0 and (run / f"model.ckpt-{told}.index").exists()), said

    together, _ = start("killed", 2, 2, *saves)
    for process in together:
        assert f"Continuing from {run}/model.ckpt-{done}." in process.said()
    np.testing.assert_array_equal(everything_in(tf.train.latest_checkpoint(str(run))), expected)


def test_a_signal_to_one_of_four_stops_all_after_the_same_step(
    start, one_machine, tmp_path, weights_in, newest_step
):
    run = tmp_path / "stopped"
    together, _ = start("stopped", 4, 1, "--train_steps=100000", "--save_checkpoints_secs=0")
    end = time.monotonic() + 240
    while newest_step(run) < 2:
        assert time.monotonic() < end
        together[0].check_running()
        time.sleep(0.01)
    together[2].send_signal(signal.SIGTERM)
    outputs = [process.said(143) for process in together]
    step = newest_step(run)
    for output in outputs:
        assert f"Stopped by SIGTERM after step {step}; saved {run}/model.ckpt-{step}." in output
    assert step <= STEPS
    _, weights = one_machine
    np.testing.assert_allclose(weights_in(f"{run}/model.ckpt-{step}"), weights[step], atol=1e-5)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(("workers", "devices"), [(2, 1), (4, 2)])
def test_other_numbers_of_workers_and_devices_make_the_same_updates(
    start, workers, devices, make_record, generated, make_strategy, tmp_path, weights_in
):
    # What dropout drops depends on the number of replicas, and on how they split a step; nothing
    # else does.
    hparams = (
        f"--hparams={SIZE.replace('microbatch_tokens=40', 'microbatch_tokens=auto')},dropout=0"
    )
    flags = "--train_steps=2", hparams, "--schedule=train"
    together, _ = start("several", workers, devices, *flags)
    record = make_record(train_steps=2, dropout=0.0)
    train(
        record,
        generated,
        tmp_path / "one",
        lambda *_, **__: TensorFlowStep(record.make_model, record.hparams, make_strategy(), 1),
        TrainOptions(schedule="train"),
    )
    for process in together:
        assert f"on {workers * devices} replica(s)" in (text := process.said())
        assert re.search("^microbatch_tokens=auto: .*, the least of all workers", text, re.M)
    several, one = (weights_in(tmp_path / name / "model.ckpt-2") for name in ("several", "one"))
    np.testing.assert_allclose(several, one, atol=1e-5)


def test_all_take_what_fits_the_least_and_go_on_with_half_after_one_ran_out(
    start, make_record, tmp_path, newest_step
):
    hparams = make_record().hparams
    count = make_record().make_model().count_params()
    held = step_memory(hparams, 5, count, 100, 10, True)
    # On one machine, each worker counts half of what is free.
    enough = 2 * (held.accumulators + 3 * held.passing)
    flags = f"--hparams={SIZE.replace('=40', '=auto')}", "--save_checkpoints_secs=0"

    def run(status, **worker_1):
        memory = [{"free_memory": 10 * enough}, {"free_memory": enough, **worker_1}]
        together, addresses = start("auto", 2, 1, *flags, memory=memory)
        return [process.said(status) for process in together], addresses

    outputs, addresses = run(75, out_of_memory_at=3)
    found = {
        re.search("^microbatch_tokens=auto: (.*), counted for .*, the least of", text, re.M)[1]
        for text in outputs
    }
    (tokens,) = map(int, found)
    assert 32 < tokens < 150, "less than the step has, which the chief could hold"
    half = max(tokens // 2, 32)
    assert f"Worker 1 ({addresses[1]}) ended with an error: Out of memory" in outputs[0]
    for text in outputs:
        assert f"with microbatch_tokens={tokens};" in text
        assert f"they go on with {half}." in text
    assert newest_step(tmp_path / "auto") < STEPS
    for text in run(0)[0]:
        assert f"microbatch_tokens={half}, as " in text
        assert "auto" not in text.partition("microbatch.json says")[2].partition("\n")[0]
    assert newest_step(tmp_path / "auto") == STEPS


@pytest.mark.usefixtures("eagerly")
def test_gradients_are_exchanged_in_bfloat16_between_workers_on_request(
    start, make_record, make_strategy, generated, tmp_path
):
    hparams = f"--hparams={SIZE},dropout=0,reduction_dtype=bfloat16"
    together, _ = start("rounded", 2, 1, "--train_steps=1", hparams)
    record = make_record(train_steps=1, dropout=0.0)
    step = TensorFlowStep(record.make_model, record.hparams, make_strategy(), 1)

    def gradient():
        # After the first step, Adam's mean is the gradient times 1 - beta1.
        means = [np.ravel(mean.numpy()) for mean in step.optimizer._momentums]
        return np.concatenate(means) / np.float32(1 - record.hparams.adam_beta1)

    def held(values):
        return tf.cast(tf.cast(values, tf.bfloat16), tf.float32).numpy()

    options = TrainOptions(schedule="train")
    train(record, generated, tmp_path / "exact", lambda *_, **__: step, options)
    exact = gradient()
    for process in together:
        assert "on 2 replica(s)" in process.said()
    assert Checkpoints(tmp_path / "rounded", step.state(), 1).restore_newest()
    rounded = gradient()
    scale = np.abs(exact).max()
    # 8 bits of mantissa for each worker's and for the sum.
    np.testing.assert_allclose(rounded, exact, atol=2**-7 * scale)
    np.testing.assert_allclose(rounded, held(rounded), rtol=1e-5)
    assert np.abs(exact - held(exact)).max() > 1e-4 * scale


def test_what_workers_compare(make_request, generated, monkeypatch):
    cluster = Cluster(("a:1", "b:1"), 0)

    def uses(gpus=0, options=None, data=generated, **hparams):
        request = make_request(**hparams)
        return worker_identity(cluster, request.record(data), data, options or TrainOptions(), gpus)

    chief = uses()

    def unlike(**changes):
        lines = differences(cluster, chief, 1, uses(**changes))
        assert all("on worker 0 (the chief, a:1), " in line for line in lines)
        assert all(line.endswith("on worker 1 (b:1)") for line in lines)
        return {line.partition(": ")[0] for line in lines}

    def other(split):
        """The same data with another text of as many bytes in one of a split's files."""
        files = copy.deepcopy(generated.manifest["files"])
        next(files[name] for name in files if name.startswith(split))["sha256"] = "0" * 64
        return dataclasses.replace(generated, manifest={**generated.manifest, "files": files})

    assert {"python", "tensorflow", "keras", "t2t_keras", "dropout"} <= set(chief)
    assert unlike() == set()
    assert unlike(gpus=2) == {"GPUs"}
    assert unlike(dropout=0.3) == {"dropout"}
    assert unlike(microbatch_tokens=100) == {"microbatch_tokens"}
    assert unlike(options=TrainOptions(local_eval_frequency=7)) == {"--local_eval_frequency"}
    assert unlike(data=other("train")) == {"training data"}
    assert unlike(data=other("dev")) == {"dev data"}
    there = installed_versions()
    monkeypatch.setattr(identity, "installed_versions", lambda: {**there, "tensorflow": "0.1"})
    monkeypatch.setattr(identity, "source_version", lambda: "0")
    assert unlike() == {"tensorflow", "source of t2t_keras"}
