"""Minimum-Bayes-risk decoding puts the output with the highest expected utility first."""

import numpy as np
import pytest
from refusals import refused
from sacrebleu.metrics import BLEU, CHRF
from upper_case import UpperCase, UpperCaseEngine

from t2t_keras import registry
from t2t_keras.bin import t2t_decoder
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engine import Output
from t2t_keras.lab.minimum_bayes_risk import MinimumBayesRisk, minimum_bayes_risk

SAMPLES = ["the red house", "a red house", "the mouse", "green", "a red house"]


class Sampler(UpperCaseEngine):
    """Finds `SAMPLES` for each line; at first only the first, unless all are returned."""

    def __init__(self, config, asked_for_all=False):
        super().__init__(config)
        self.asked_for_all = asked_for_all or config.returns_all

    def with_all_hypotheses(self):
        return self if self.asked_for_all else Sampler(self.config, asked_for_all=True)

    def outputs(self, sources, prefixes, numbers):
        texts = SAMPLES if self.asked_for_all else SAMPLES[:1]
        outputs = [Output(ids, -rank) for rank, ids in enumerate(self.tokenizer.encode(texts))]
        return [outputs] * len(sources)


@pytest.mark.parametrize(
    ("name", "metric"), [("chrf", CHRF()), ("bleu", BLEU(effective_order=True))]
)
def test_costs_are_those_of_sentence_scores(name, metric):
    utility = np.array(
        [
            [metric.sentence_score(output, [reference]).score for reference in SAMPLES]
            for output in SAMPLES
        ]
    )
    np.fill_diagonal(utility, 0)
    costs = MinimumBayesRisk(name).prepare("").costs("", SAMPLES)
    np.testing.assert_allclose(costs, 100 - utility.sum(axis=1) / 4)


@pytest.mark.parametrize(
    ("config", "texts"),
    [
        # "a red house" was drawn twice; the other samples stay in the order of their draws.
        (dict(samples=5), ["a red house"]),
        (dict(samples=5, return_beams=True), [SAMPLES[i] for i in (1, 0, 2, 3, 4)]),
        (dict(beam_size=5), ["a red house"]),
        (dict(beam_size=5, return_beams=True), [SAMPLES[i] for i in (1, 4, 0, 2, 3)]),
    ],
)
def test_the_output_most_like_the_others_is_first(config, texts):
    plain = UpperCase(engine=Sampler(DecodeConfig(**config)))
    [translation] = minimum_bayes_risk("chrf")(plain).translate(["x"])
    assert [hypothesis.text for hypothesis in translation.hypotheses] == texts
    assert translation.rank == 1
    assert plain.translate(["x"])[0].text == SAMPLES[0]


def test_a_single_output_stays():
    plain = UpperCase(engine=Sampler(DecodeConfig(beam_size=5)))
    plain.engine.with_all_hypotheses = lambda: plain.engine
    [translation] = minimum_bayes_risk("bleu")(plain).translate(["x"])
    assert (translation.text, translation.rank) == (SAMPLES[0], 0)


def test_a_registered_metric_is_a_utility(own_registry):
    calls = []

    def same_end(hypotheses, references, sources):
        calls.append((hypotheses, references, sources))
        return 100 * (hypotheses[0][-1] == references[0][-1])

    registry.register_metric(same_end)
    costs = MinimumBayesRisk("same_end").prepare("").costs("quelle", ["ab", "cb", "d"])
    assert costs == [50, 50, 100]
    assert (["ab"], ["cb"], ["quelle"]) in calls


def test_an_unknown_utility_is_refused():
    with refused("unknown_name", "rouge"):
        MinimumBayesRisk("rouge")


def test_the_decoder_has_a_flag_for_it(random_run, tmp_path):
    (tmp_path / "in").write_text("A man sleeps.\n")
    flags = f"--output_dir={random_run} --decode_from_file={tmp_path / 'in'}".split()
    settings = "--decode_hparams=samples=6,extra_length=2,return_beams=true"
    lines = []
    for more in ([], ["--minimum_bayes_risk=chrf"]):
        output = tmp_path / f"out{len(more)}"
        t2t_decoder.run(["t2t-decoder", *flags, settings, f"--decode_to_file={output}", *more])
        lines.append(output.read_text().removesuffix("\n").split("\t"))
    samples, ranked = lines
    costs = MinimumBayesRisk().prepare("").costs("", samples)
    best = samples[np.argmin(costs)]
    assert ranked[0] == best
    assert sorted(ranked) == sorted(samples)
