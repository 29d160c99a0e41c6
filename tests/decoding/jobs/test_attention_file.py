"""The file of attention weights, read by NumPy alone and compared with the model's own."""

import io

import numpy as np

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.jobs.files import attention_records
from t2t_keras.decoding.translation import Translation
from t2t_keras.decoding.translator import Translator

LINES = ["the small 1", " ", "a 1 sees the tree and more than that"] + ["red house"] * 8 + ["1"]
TEXTS = ["dog small the", "", "tree"] + ["house red"] * 8 + ["dog"]
# The third line has more.
MOST = 12


class Digits(Problem):
    def preprocess(self, source):
        return source.replace("1", "dog")


def test_each_line_has_the_model_s_own_weights(model, tokenizer):
    translator = Translator(model, tokenizer, DecodeConfig(max_input_length=MOST), problem=Digits())
    translations = [Translation(text, 0.0) for text in TEXTS]
    file = io.BytesIO(b"".join(attention_records(translator, LINES, translations)))
    sources = [
        [*ids[:-1][: MOST - 1], 1]
        for ids in tokenizer.encode([line.replace("1", "dog").strip() for line in LINES])
    ]
    assert [len(ids) == MOST for ids in sources] == [number == 2 for number in range(len(LINES))]
    for ids in zip(sources, tokenizer.encode(TEXTS), strict=True):
        source, target, *weights = (np.load(file) for _ in range(5))
        assert [source.tolist(), target.tolist()] == list(map(tokenizer.pieces, ids))
        pair = (np.array([each], np.int32) for each in ids)
        expected = model.attention_weights(dict(zip(("source", "target"), pair, strict=True)))
        for found, kind in zip(weights, ("encoder", "decoder", "cross"), strict=True):
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, expected[kind][0], atol=1e-5)
    assert not file.read()
