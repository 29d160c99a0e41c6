import dataclasses

import pytest

from t2t_keras.data.problem import make_problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.tables import newest_result

USUAL = dataclasses.asdict(DecodeConfig())
CONFIG = make_problem("translate_ende").config()
# What t2t-decoder adds to the settings of decoding.
LIKE_THE_PAPER_S = dict(
    decode=USUAL | {"ensemble": [], "forbidden": "", "prefixes": ""}, problem_config=CONFIG
)


@pytest.mark.parametrize(
    "changes",
    [
        dict(set="transformer_tiny"),
        dict(split="dev"),
        dict(problem="translate_ende_wmt32k"),
        dict(hparams={"dropout": 0.2}),
        # As t2t-eval --noeval_bleu leaves it.
        dict(bleu=None, perplexity=4.9, decode={}),
        dict(averaged=1),
        dict(averaged=None),
        dict(text="newstest2014, filtered edition (2,737 lines)"),
        dict(text="newstest2014, full edition (10 lines; as published it has 3,003)"),
        dict(problem_config=CONFIG | {"newstest2014": "filtered"}),
        dict(problem_config=CONFIG | {"vocab_size": 8000}),
        dict(decode=USUAL | {"ensemble": ["runs/other/model.ckpt-9"]}),
        dict(decode=USUAL | {"engine": "ctranslate2 int8"}),
        dict(decode=USUAL | {"forbidden": "words"}),
        dict(decode=USUAL | {"prefixes": "beginnings"}),
        dict(decode=USUAL | {"alpha": 1.0}),
        dict(decode=USUAL | {"samples": 1}),
    ],
    ids=str,
)
def test_what_is_not_made_as_the_paper_s_is_passed_over(make_result, changes):
    good, other = make_result(**LIKE_THE_PAPER_S), make_result(**LIKE_THE_PAPER_S | changes)

    def newest(*results):
        return newest_result(results, "transformer_base", "test", "translate_ende", averaged=5)

    assert newest(good, other) == good
    assert newest(other) is None


def test_what_changes_only_how_it_is_computed_counts_and_the_newest_does(make_result):
    newest = make_result(
        bleu=27.5,
        hparams={"microbatch_tokens": 9},
        problem_config=CONFIG | {"text_source": "tfds"},
        decode=LIKE_THE_PAPER_S["decode"] | {"batch_tokens": 9, "xla": True},
    )
    results = [make_result(**LIKE_THE_PAPER_S), newest]
    assert newest_result(results, "transformer_base", "test", averaged=5) == newest
    assert newest_result(results, None, "test") is None


def test_perplexity_does_not_depend_on_decoding(make_result):
    measured = dict(perplexity=4.9, bleu=None, decode={"beam_size": 1})
    result = make_result(split="dev", text="newstest2013 (3,000 lines)", **measured)
    arguments = [result], "transformer_base", "dev", "translate_ende"
    assert newest_result(*arguments, score="perplexity", averaged=5) == result


def test_parses_are_searched_for_as_in_section_6_3(make_result):
    name = "transformer_parsing_base"
    for beam_size, is_comparable in ((21, True), (4, False)):
        decode = USUAL | {"alpha": 0.3, "extra_length": 300, "beam_size": beam_size}
        result = make_result(set=name, problem="parsing_wsj", text="", f1=91.0, decode=decode)
        assert (newest_result([result], name, "test", score="f1") == result) == is_comparable
