"""The file of attention weights, read by NumPy alone and compared with the model's own."""

import numpy as np
import pytest

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.attention_file import attention_records
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translation import Translation
from t2t_keras.decoding.translator import Translator

LINES = ["the small 1", " ", "a 1 sees the tree and more than that"] + ["red house"] * 8 + ["1"]
TEXTS = ["dog small the", "", "tree"] + ["house red"] * 8 + ["dog"]
# The third line has more.
MOST = 12


class Digits(Problem):
    def prepared(self, source):
        return source.replace("1", "dog")


@pytest.fixture
def path(model, tokenizer, tmp_path):
    translator = Translator(model, tokenizer, DecodeConfig(max_input_length=MOST), problem=Digits())
    translations = [Translation(text, 0.0) for text in TEXTS]
    path = tmp_path / "attention"
    path.write_bytes(b"".join(attention_records(translator, LINES, translations)))
    return path


def test_each_line_has_the_model_s_own_weights(path, model, tokenizer):
    cut = 0
    with path.open("rb") as file:
        for line, text in zip(LINES, TEXTS, strict=True):
            source, target, encoder, decoder, cross = (np.load(file) for _ in range(5))
            ids = tokenizer.encode([line.replace("1", "dog").strip(), text])
            if len(ids[0]) > MOST:
                ids[0] = [*ids[0][: MOST - 1], 1]
                cut += 1
            pair = {
                side: np.array([each], np.int32)
                for side, each in zip(("source", "target"), ids, strict=True)
            }
            expected = model.attention_weights(pair)
            assert source.tolist() == tokenizer.pieces(ids[0])
            assert target.tolist() == tokenizer.pieces(ids[1])
            for found, kind in ((encoder, "encoder"), (decoder, "decoder"), (cross, "cross")):
                assert found.dtype == np.float32
                np.testing.assert_allclose(found, expected[kind][0], atol=1e-5)
        with pytest.raises(EOFError):
            np.load(file)
    assert cut == 1
