import html.parser
import json

from t2t_keras.decoding.translation import Hypothesis
from t2t_keras.insights.page import SentenceInsights, attention_page


class Elements(html.parser.HTMLParser):
    """What an HTML parser finds in a page: elements, and the text of each script."""

    def __init__(self, page):
        super().__init__()
        self.names, self.scripts = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.scripts and self.cdata_elem == "script":
            self.scripts[-1] += data


def data_of(page):
    return json.loads(Elements(page).scripts[0])


def test_text_comes_back_whatever_it_holds(sentences):
    page = attention_page(sentences)
    plain, hostile = data_of(page)["sentences"]
    assert plain["source"] == "two dogs playing ."
    assert hostile["source"] == sentences[1].source
    assert hostile["hypotheses"] == [{"score": -2.0, "parts": [[sentences[1].source, False]]}]
    words = [piece["text"] for piece in hostile["views"]["cross"]["keys"]]
    assert words == [*sentences[1].source.split(" "), "</s>"]
    # The elements are the template's: the text has made none, and ended none.
    assert Elements(page).names == Elements(attention_page(sentences[:1])).names


def test_hypotheses_say_where_they_differ_from_the_best(sentences):
    best, shorter, other = data_of(attention_page(sentences))["sentences"][0]["hypotheses"]
    assert best == {"score": -0.5, "parts": [["zwei spielende hunde", False]]}
    assert shorter["parts"] == [["zwei", False], ["", True], ["hunde", False]]
    assert other["parts"] == [["zwei spielende", False], ["katzen", True]]


def test_a_sentence_of_the_base_model_is_small(attention):
    words = [*(f"▁w{number}" for number in range(29)), "</s>"]
    weights = attention(words, words, layers=6, heads=8)
    page = attention_page([SentenceInsights("x", (Hypothesis("x", -1.0),), weights)])
    assert 345_000 < len(page) < 400_000
