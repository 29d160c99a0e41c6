import collections
import itertools

import pytest

from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem

NAMES = [f"algorithmic_{task}_binary40" for task in ("identity", "reverse", "addition")]


def check(name, source, target):
    if "addition" not in name:
        assert target == (source if "identity" in name else "".join(reversed(source)))
        return
    numbers = [*source.split("+"), target]
    first, second, total = (int(number[::-1], 2) for number in numbers)
    assert first + second == total
    # The highest digit stands last: it is 0 in the number 0 alone.
    assert all(number == "0" or number.endswith("1") for number in numbers)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("split", "count", "longest"), [("train", 100_000, 40), ("dev", 10_000, 400)]
)
def test_sizes_lengths_and_answers_are_those_of_tensor2tensor(name, split, count, longest):
    examples = list(make_problem(name).examples(split))
    assert len(examples) == count
    for pair in examples[:5000]:
        check(name, *pair)
    lengths = collections.Counter(len(source) for source, _ in examples)
    if "addition" in name:
        # Two numbers and the sign between them.
        assert 3 <= min(lengths) <= longest / 10
        assert longest - 1 <= max(lengths) <= longest
        assert {"0", "1"} <= {number for source, _ in examples for number in source.split("+")}
    else:
        # Every length from 1 on is as likely as any other: 5 standard deviations around the mean.
        expected = count / longest
        assert set(lengths) == set(range(1, longest + 1))
        assert all(abs(length - expected) < 5 * expected**0.5 for length in lengths.values())
        digits = collections.Counter(itertools.chain.from_iterable(pair[0] for pair in examples))
        assert digits["0"] + digits["1"] == digits.total()
        assert digits["1"] / digits.total() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_the_pairs_depend_on_the_seed_alone(name):
    def first(config, split="train"):
        return list(itertools.islice(make_problem(name, config).examples(split), 50))

    assert first("") == first("seed=0") == first("train_size=60")
    assert first("") != first("seed=1")
    # Short as the dev set is made here, it is not the beginning of training.
    assert first("dev_length=40", "dev") != first("")


@pytest.mark.parametrize(("name", "characters"), [(NAMES[2], 3), (f"{NAMES[1]}_rev", 2)])
def test_generated(pairs_of, name, characters, tmp_path):
    problem = make_problem(name, "train_size=300,dev_size=20,dev_length=50")
    manifest = generate(problem, tmp_path)
    assert manifest["vocabulary"]["size"] == 3 + characters
    generated = open_generated(problem, tmp_path)
    assert (list(manifest["splits"]), generated.corpora) == (["train", "dev"], {"train": 300})
    for split in manifest["splits"]:
        order = -1 if problem.reverse else 1
        pairs = [pair[::order] for pair in problem.examples(split)]
        assert pairs_of(generated, split) == pairs
        # A token a digit, and EOS.
        lengths = [[len(text) + 1 for text in pair] for pair in pairs]
        assert generated.open_examples(split).lengths.tolist() == lengths
    # Its code may have changed, which no file tells.
    written = (generated.directory / "manifest.json").stat().st_mtime_ns
    assert generate(problem, tmp_path) == manifest
    assert (generated.directory / "manifest.json").stat().st_mtime_ns > written


def test_score_gives_the_share_of_exact_outputs():
    problem = make_problem("algorithmic_identity_binary40")
    score = problem.score(["011010110", "1110", "0", "10"], ["011010110", "1111", "0", "100"])
    assert "50.00 (2 of 4)" in score.report.splitlines()[0]
    assert 0 < score.bleu < 100
    assert "tok:char" in score.bleu_signature
