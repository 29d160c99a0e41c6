import json
import re

from t2t_keras.decoding.translation import Hypothesis
from t2t_keras.lab.insights import SentenceInsights, attention_page


def test_what_the_page_holds_of_a_sentence(sentences):
    page = attention_page(sentences)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1]
    # Nothing in it can end the script or begin a comment, as <!-- would.
    assert not {"<", ">", "&"} & set(data)
    plain, hostile = json.loads(data)["sentences"]
    assert plain["source"] == "two dogs playing ."
    best, shorter, other = plain["hypotheses"]
    # Cut up where they differ from the best.
    assert best == {"score": -0.5, "parts": [["zwei spielende hunde", False]]}
    assert shorter["parts"] == [["zwei", False], ["", True], ["hunde", False]]
    assert other["parts"] == [["zwei spielende", False], ["katzen", True]]
    # Text comes back whatever it holds.
    assert hostile["source"] == sentences[1].source
    assert hostile["hypotheses"] == [{"score": -2.0, "parts": [[sentences[1].source, False]]}]


def test_a_sentence_of_the_base_model_is_small(attention):
    words = [*(f"▁w{number}" for number in range(29)), "</s>"]
    weights = attention(words, words, layers=6, heads=8)
    page = attention_page([SentenceInsights("x", (Hypothesis("x", -1.0),), weights)])
    assert 345_000 < len(page) < 400_000
