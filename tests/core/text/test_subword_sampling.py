"""Divisions that are drawn, against those that SentencePiece draws."""

import collections

import pytest

from t2t_keras.text.tokenizer import SentencePieceTokenizer

TEXT = [
    "low lower lowest newer newest wider widest",
    "über die straße, the cat sits on mats",
    "<2de> the lowest cat is wider",
] * 9


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request):
    return SentencePieceTokenizer.train(TEXT, 285, request.param, ["<2de>"])


@pytest.mark.parametrize(("sampling", "nbest"), [(0.1, 0), (0.4, 0), (0.4, 5)])
def test_divisions_are_as_frequent_as_those_of_sentencepiece(tokenizer, sampling, nbest):
    line, times = "stast stest stost", 4000
    draw = dict(enable_sampling=True, alpha=sampling, nbest_size=nbest or -1)
    ids = tokenizer.sampler(sampling, nbest).sample([line] * times, list(map(str, range(times))))
    actual = collections.Counter(tuple(spelling.tolist()) for spelling in ids)
    expected = collections.Counter(
        (*tokenizer._processor.encode(line, **draw), 1) for _ in range(times)
    )
    frequent = [spelling for spelling, count in expected.items() if count > times / 100]
    assert len(frequent) > 3
    for spelling in frequent:
        assert actual[spelling] == pytest.approx(
            expected[spelling], abs=9 * expected[spelling] ** 0.5
        )


@pytest.mark.parametrize(("sampling", "nbest"), [(0.3, 0), (0.01, 64)])
def test_text_stays_and_symbols_are_one_piece(tokenizer, sampling, nbest):
    symbol, sampler = tokenizer.vocabulary()["▁<2de>"], tokenizer.sampler(sampling, nbest)
    lines = ["<2de> the  lowest cat ", "", " ", "日本語 lowest", "x" * 30, "lowest<2de>", "<2de> a"]
    samples = sampler.sample(lines * 20, list(map(str, range(140))))
    assert tokenizer.decode(samples) == lines * 20
    assert all(ids[0] == symbol for ids in [*samples[::7], *samples[6::7]])


def test_every_process_draws_the_same():
    tokenizer = SentencePieceTokenizer.train(TEXT, 285, "bpe")
    samples = tokenizer.sampler(0.4).sample(["lowest straße"], ["1 2 3"])
    assert "|".join(tokenizer.pieces(samples[0][:-1])) == "▁|l|o|w|est|▁|s|t|r|a|ß|e"


def test_little_is_left_out_and_everything():
    tokenizer = SentencePieceTokenizer.train(TEXT, 300, "bpe", ["(S", "(SBAR"])
    text = [*TEXT, "lowest" * 9, "(SBAR lowest (S"]
    whole, characters = (tokenizer.sampler(share).sample(text, text) for share in (1e-12, 1.0))
    assert [ids.tolist() for ids in whole] == [ids.tolist() for ids in tokenizer.encode(text)]
    assert tokenizer.pieces(characters[-1])[0] == "▁(SBAR"
    assert tokenizer.pieces(characters[0][:5]) == ["▁", "l", "o", "w", "▁"]
