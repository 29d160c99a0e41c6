"""The search for the most that fits, and what is remembered of it."""

import dataclasses
import json

import pytest

from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.training import microbatch
from t2t_keras.training.cluster import Cluster
from t2t_keras.training.memory import step_memory
from t2t_keras.training.microbatch import (
    Microbatch,
    StartAgainError,
    find_microbatch,
    most_that_fit,
    remembered_microbatch,
)
from t2t_keras.training.out_of_memory import OutOfMemoryError
from t2t_keras.training.run_record import RunRecord
from t2t_keras.training.split_evaluation import SplitEvaluator
from t2t_keras.training.tensorflow_step import TensorFlowStep
from t2t_keras.training.train_options import TrainOptions
from t2t_keras.training.trainer import train

AUTO = HParams(microbatch_tokens=0)


@pytest.mark.parametrize("limit", [256, 257, 300, 1000, 4095, 24_999])
def test_the_search_ends_just_below_what_does_not_fit(limit):
    tried = []

    def fits(tokens):
        tried.append(tokens)
        return tokens <= limit

    found = most_that_fit(fits, 256, 25_000)
    assert limit / 1.1 - 1 <= found <= limit
    assert found in tried
    assert len(tried) <= 9


def test_what_fits_as_a_whole_is_tried_once_and_what_never_fits_is_told():
    tried = []
    assert most_that_fit(lambda tokens: not tried.append(tokens), 256, 25_000) == 25_000
    assert tried == [25_000]
    assert most_that_fit(lambda tokens: False, 256, 25_000) == 0
    assert most_that_fit(lambda tokens: False, 256, 256) == 0


def test_what_was_found_is_remembered_where_it_was_found(tmp_path):
    found = Microbatch(tmp_path / "run", AUTO, "8 x GPU")
    assert found.tokens == 0
    found.find(lambda tokens: tokens <= 5000, 25_000)
    assert 4500 <= found.tokens <= 5000
    assert Microbatch(tmp_path / "run", AUTO, "8 x GPU").tokens == found.tokens
    assert Microbatch(tmp_path / "run", AUTO, "4 x GPU").tokens == 0
    assert Microbatch(tmp_path / "run", AUTO, "8 x GPU", replicas=2).tokens == 0
    recompute = dataclasses.replace(AUTO, recompute=True)
    assert Microbatch(tmp_path / "run", recompute, "8 x GPU").tokens == 0
    assert Microbatch(tmp_path / "run", HParams(), "8 x GPU").tokens == 4096


def test_half_is_remembered_and_a_sentence_is_the_least(tmp_path):
    halved = Microbatch(tmp_path, HParams(microbatch_tokens=600), "GPU")
    halved.halve()
    assert halved.tokens == 300
    halved = Microbatch(tmp_path, HParams(microbatch_tokens=600), "GPU")
    assert halved.tokens == 300
    halved.halve()
    assert halved.tokens == 256
    with pytest.raises(UserError, match=r"max_length=256.*Lower max_length, set recompute=true"):
        halved.halve()
    assert json.loads((tmp_path / "microbatch.json").read_text())["tokens"] == 256


def test_several_workers_take_the_least_that_one_of_them_finds(tmp_path):
    given = []

    def least(number):
        given.append(number)
        return min(number, 900)

    found = Microbatch(tmp_path, AUTO, "GPU", least=least)
    found.find(lambda tokens: tokens <= 5000, 25_000)
    assert given[0] == 0, "nothing is remembered"
    assert 4500 < given[1] <= 5000, "what fits here"
    assert found.tokens == 900
    again = Microbatch(tmp_path, AUTO, "GPU", least=least)
    assert again.tokens == 900
    assert again.keeps(lambda tokens: tokens == 900)
    assert not Microbatch(tmp_path, AUTO, "GPU", least=lambda number: 900 * (number > 1)).keeps(
        bool
    ), "another no longer has the memory"
    # Where another does not know of it, as where a file is seen late, all find it anew.
    assert Microbatch(tmp_path, AUTO, "GPU", least=lambda number: 0).tokens == 0
    with pytest.raises(UserError, match="Out of memory with sentences of max_length=256"):
        Microbatch(tmp_path, AUTO, "GPU", least=lambda number: 0).find(lambda tokens: True, 25_000)


def test_several_workers_go_on_with_half_when_they_are_started_again(tmp_path):
    hparams = HParams(microbatch_tokens=600)
    together = Microbatch(tmp_path, hparams, "GPU", least=lambda number: number)
    with pytest.raises(StartAgainError, match=r"microbatch_tokens=600; .*go on with 300") as error:
        together.halve()
    assert error.value.exit_status == 75, "as docs/distributed.md says"
    assert Microbatch(tmp_path, hparams, "GPU", least=lambda number: number).tokens == 300


def test_a_file_that_cannot_be_read_is_named_and_not_used(tmp_path, capsys):
    (tmp_path / "microbatch.json").write_text("{")
    assert Microbatch(tmp_path, HParams(), "GPU").tokens == 4096
    assert "microbatch.json cannot be read and is not used" in capsys.readouterr().out


class FakeStep:
    """A step whose devices hold so many tokens, on a GPU; on a CPU, nothing may be tried."""

    def __init__(self, make_model, held=0, name="Some GPU"):
        self.model, self._held, self._name = make_model(), held, name
        self.num_replicas, self.replicas_here, self.fixed_shapes = 2, range(2), False

    def gpus(self):
        return [self._name] * 2 if self._held else []

    def fits(self, parts):
        assert len(parts) == 2
        assert self._held
        return parts[0].source.size <= self._held

    def least(self, number):
        return min(number, 190)


@pytest.fixture
def find(generated, tmp_path):
    """Returns a function that returns the microbatch that a run begins, or goes on, with."""

    def find(step, record, directory="run", cluster=None):
        found = remembered_microbatch(step, record.hparams, tmp_path / directory, cluster)
        find_microbatch(found, step, record, generated, cluster)
        return found

    return find


def test_auto_is_tried_on_a_gpu(find, make_record, generated, capsys):
    record = make_record(microbatch_tokens=0, batch_tokens=3000)
    found = find(FakeStep(record.make_model, 200), record)
    longest = int(generated.store("train").lengths.max())
    assert 200 / 1.1 - longest <= found.tokens <= 200
    assert "tried on 2 x Some GPU" in capsys.readouterr().out


def test_workers_of_unlike_hardware_remember_one_number(find, make_record, capsys):
    record = make_record(microbatch_tokens=0, batch_tokens=3000)
    small, large = (
        FakeStep(record.make_model, held, name) for held, name in ((190, "Small"), (400, "Large"))
    )
    cluster = Cluster(("a:1", "b:1"), 0)
    found = find(small, record, cluster=cluster)
    assert 170 < found.tokens <= 190
    with pytest.raises(StartAgainError):
        found.halve()
    capsys.readouterr()
    for step in (large, small):
        assert find(step, record, cluster=cluster).tokens == found.tokens
        assert "microbatch.json says" in (said := capsys.readouterr().out)
        assert "auto" not in said
    assert find(small, record, cluster=None).tokens != found.tokens, "alone, all fits that can"


def test_sums_of_gradients_that_do_not_fit(find, make_record):
    record = make_record(microbatch_tokens=0, batch_tokens=3000)

    class NoRoom(FakeStep):
        def fits(self, parts):
            raise OutOfMemoryError

    with pytest.raises(UserError, match="Out of memory with sentences of max_length=32"):
        find(NoRoom(record.make_model, 200), record)


def test_auto_is_counted_on_a_cpu(find, make_record, capsys, monkeypatch):
    record = make_record(microbatch_tokens=0, batch_tokens=3000)
    step = FakeStep(record.make_model)
    monkeypatch.setattr(microbatch, "free_memory", lambda: 4_000_000)
    found = find(step, record)
    assert "counted for 0.0 GB of free memory" in capsys.readouterr().out

    def needed(tokens):
        memory = step_memory(record.hparams, 5, step.model.count_params(), tokens, 13, True)
        return 2 * (memory.accumulators + memory.passing)

    assert 13 < found.tokens < 3000 / 2
    assert 1.9 * needed(found.tokens) < 4_000_000 < 2.5 * needed(found.tokens)
    # Workers of one machine share its memory.
    here, elsewhere = Cluster(("a:1", "a:2"), 1), Cluster(("a:1", "b:2"), 1)
    step.least = lambda number: number
    assert find(step, record, "here", here).tokens < 0.6 * found.tokens
    assert find(step, record, "elsewhere", elsewhere).tokens == found.tokens
    # One replica has all of the memory, and what fitted beside another is not taken for it.
    step.num_replicas, step.replicas_here = 1, range(1)
    assert find(step, record).tokens > 1.5 * found.tokens
    step.num_replicas, step.replicas_here = 2, range(2)
    monkeypatch.setattr(microbatch, "free_memory", lambda: 0)
    with pytest.raises(UserError, match="does not tell how much memory is free"):
        find(step, record, "other")
    monkeypatch.setattr(microbatch, "free_memory", lambda: 1000)
    with pytest.raises(UserError, match="Out of memory with sentences of max_length=32"):
        find(step, record, "other")


def test_what_was_found_is_counted_again_where_less_memory_is_free(
    find, make_record, capsys, monkeypatch
):
    record = make_record(microbatch_tokens=0, batch_tokens=3000)
    step, free = FakeStep(record.make_model), [4_000_000]
    monkeypatch.setattr(microbatch, "free_memory", lambda: free[0])
    found = find(step, record).tokens
    for free[0] in (4_000_000, 3_700_000, 8_000_000, 0):
        capsys.readouterr()
        # A run that goes on splits its steps as before.
        assert find(step, record).tokens == found
        assert "microbatch.json says" in capsys.readouterr().out
    free[0] = 2_000_000
    less = find(step, record).tokens
    assert less < found / 1.5
    assert f"microbatch_tokens={found:,} is too much for the memory" in capsys.readouterr().out
    free[0] = 8_000_000
    assert find(step, record).tokens == less, "and that is remembered"
    free[0] = 1000
    given = make_record(microbatch_tokens=512)
    assert find(step, given).tokens == 512, "what is asked for is not counted"


@pytest.mark.usefixtures("eagerly")
def test_a_run_with_auto_trains_and_is_measured(
    make_record, make_strategy, generated, tmp_path, capsys, monkeypatch
):
    auto, given = (make_record(microbatch_tokens=number, train_steps=1) for number in (0, 512))
    steps = []

    def make_step(record, **options):
        steps.append(TensorFlowStep(record.make_model, record.hparams, make_strategy(), 1))
        return steps[-1]

    train(auto, generated, tmp_path, make_step)
    assert "microbatch_tokens=auto: " in capsys.readouterr().out
    loaded = RunRecord.load(tmp_path)
    assert loaded.hparams.microbatch_tokens == 0, "as it was asked for"
    # What t2t-eval measures it with.
    ours, theirs = (SplitEvaluator(steps[0], record, generated) for record in (loaded, given))
    assert ours.measure() == pytest.approx(theirs.measure(), rel=1e-5)
    assert ours.left_out == theirs.left_out == 0
    # To measure takes less memory, and what a run remembers is not an evaluation's to change.
    monkeypatch.setattr(microbatch, "free_memory", lambda: 1000)
    remembered = (tmp_path / "microbatch.json").read_bytes()
    for content in (remembered, None):
        found = train(auto, generated, tmp_path, make_step, TrainOptions(schedule="evaluate"))
        assert found.evaluation == pytest.approx(theirs.measure(), rel=1e-5)
        file = tmp_path / "microbatch.json"
        assert content is None or file.read_bytes() == content
        file.unlink(missing_ok=True)
    assert not (tmp_path / "microbatch.json").exists()
