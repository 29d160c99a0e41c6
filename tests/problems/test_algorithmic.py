import collections
import itertools

import pytest

from t2t_keras import registry
from t2t_keras.data.generate import generate
from t2t_keras.data.generated import open_generated

NAMES = [f"algorithmic_{task}_binary40" for task in ("identity", "reverse", "addition")]


def lowest_first(text):
    assert set(text) <= {"0", "1"}
    return sum(2**place for place, digit in enumerate(text) if digit == "1")


def check(name, source, target):
    if "identity" in name:
        assert target == source
    elif "reverse" in name:
        assert list(target) == list(reversed(source))
    else:
        first, second = source.split("+")
        assert lowest_first(target) == lowest_first(first) + lowest_first(second)
        # The highest digit stands last: it is 0 in the number 0 alone.
        assert all(number == "0" or number.endswith("1") for number in (first, second, target))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("split", "count", "longest"), [("train", 100_000, 40), ("dev", 10_000, 400)]
)
def test_sizes_lengths_and_answers_are_the_lineages(name, split, count, longest):
    problem = registry.problem(name)
    examples = list(problem.examples(split))
    assert len(examples) == count
    for source, target in examples:
        check(name, source, target)
    lengths = collections.Counter(len(source) for source, _ in examples)
    if "addition" in name:
        # Two numbers and the sign between them.
        assert 3 <= min(lengths) <= longest / 10
        assert longest - 1 <= max(lengths) <= longest
    else:
        # Every length from 1 on is as likely as any other: 5 standard deviations around the mean.
        expected = count / longest
        assert set(lengths) <= set(range(1, longest + 1))
        for length in range(1, longest + 1):
            assert abs(lengths[length] - expected) < 5 * expected**0.5
        digits = collections.Counter(itertools.chain.from_iterable(pair[0] for pair in examples))
        assert digits["1"] / digits.total() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_the_pairs_depend_on_the_seed_alone(name):
    def first(config, split="train"):
        return list(itertools.islice(registry.problem(name, config).examples(split), 50))

    assert first("") == first("seed=0") == first("train_size=60")
    assert first("") != first("seed=1")
    # Short as the dev set is made here, it is not the beginning of training.
    assert first("dev_length=40", "dev") != first("")
    assert first("")[:3] == first("", "train")[:3]


@pytest.mark.parametrize("name", NAMES)
def test_generated(name, tmp_path):
    problem = registry.problem(name, "train_size=300,dev_size=20,dev_length=50")
    manifest = generate(problem, tmp_path)
    symbols = 3 if "addition" in name else 2
    assert manifest["vocabulary"]["size"] == 3 + symbols
    assert list(manifest["splits"]) == ["train", "dev"]
    generated = open_generated(problem, tmp_path)
    store, decode = generated.store("train"), generated.tokenizer.decode
    assert len(store) == 300
    for index, (source, target) in enumerate(problem.examples("train")):
        assert decode([store.source(index), store.target(index)]) == [source, target]
        # A token a digit, and EOS.
        assert store.lengths[index].tolist() == [len(source) + 1, len(target) + 1]
    pairs = list(zip(*generated.text("dev"), strict=True))
    assert pairs == list(problem.examples("dev"))


def test_reverse_of_reverse(tmp_path):
    problem = registry.problem("algorithmic_reverse_binary40_rev", "train_size=50,dev_size=20")
    generate(problem, tmp_path)
    sources, references = open_generated(problem, tmp_path).text("dev")
    assert [(target, source) for source, target in zip(sources, references, strict=True)] == list(
        problem.examples("dev")
    )


def test_score_tells_the_share_of_exact_outputs():
    problem = registry.problem("algorithmic_identity_binary40")
    references = ["011010110", "1111", "0", "100"]
    score = problem.score(["011010110", "1110", "0", "10"], references)
    assert score.report.splitlines()[0] == "exact = 50.00 (2 of 4)"
    assert 0 < score.bleu < 100
    assert "tok:char" in score.bleu_signature
    assert problem.score(references, references).report.startswith("exact = 100.00 (4 of 4)")
