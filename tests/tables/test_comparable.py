"""Which results are comparable with the paper's: each difference by itself."""

import dataclasses

import pytest

from t2t_keras import registry
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.tables.comparable import newest_result

USUAL = dataclasses.asdict(DecodeConfig())
# What t2t-decoder adds to the settings.
ALONE = {"ensemble": [], "forbidden": "", "prefixes": ""}
CONFIG = registry.problem("translate_ende").config()


@pytest.fixture
def like_the_paper_s(make_result):
    return make_result(decode=USUAL | ALONE, problem_config=CONFIG)


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
        dict(decode=USUAL | {"forbidden": "words"}),
        dict(decode=USUAL | {"prefixes": "beginnings"}),
        dict(decode=USUAL | {"beam_size": 1}),
        dict(decode=USUAL | {"alpha": 1.0}),
        dict(decode=USUAL | {"samples": 1}),
    ],
    ids=str,
)
def test_what_is_not_made_as_the_paper_s_is_passed_over(like_the_paper_s, changes):
    other = dataclasses.replace(like_the_paper_s, **changes)

    def newest(*results):
        return newest_result(results, "transformer_base", "test", "translate_ende", averaged=5)

    assert newest(like_the_paper_s, other) == like_the_paper_s
    assert newest(other) is None


def test_what_changes_only_how_it_is_computed_counts_and_the_newest_does(like_the_paper_s):
    newest = dataclasses.replace(
        like_the_paper_s,
        bleu=27.5,
        hparams={"microbatch_tokens": 9},
        problem_config=CONFIG | {"text_source": "tfds"},
        decode=USUAL | ALONE | {"batch_tokens": 9, "xla": True},
    )
    results = [like_the_paper_s, newest]
    assert newest_result(results, "transformer_base", "test", averaged=5) == newest
    assert newest_result(results, None, "test") is None


def test_perplexity_does_not_depend_on_decoding(make_dev_result):
    result = make_dev_result(perplexity=4.9, bleu=None, decode={"beam_size": 1})
    arguments = [result], "transformer_base", "dev", "translate_ende"
    assert newest_result(*arguments, score="perplexity", averaged=1) == result


@pytest.mark.parametrize(("beam_size", "is_comparable"), [(21, True), (4, False)])
def test_parses_are_searched_for_as_in_section_6_3(make_result, beam_size, is_comparable):
    decode = USUAL | {"alpha": 0.3, "extra_length": 300, "beam_size": beam_size}
    name = "transformer_parsing_base"
    result = make_result(set=name, problem="parsing_wsj", text="", f1=91.0, decode=decode)
    assert (newest_result([result], name, "test", score="f1") == result) == is_comparable
