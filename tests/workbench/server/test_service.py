"""Texts as sentences, and metrics: what they count, what they reveal, who may read them."""

import dataclasses
import logging
import re
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient
from upper_case import ASKED, Source, UpperCase

from t2t_keras.decoding.translation import Hypothesis, Translation
from t2t_keras.text.sentences import ends_sentence
from t2t_keras.workbench.documents.layout import sentence_splitter
from t2t_keras.workbench.server.app import make_app
from t2t_keras.workbench.server.config import ServerConfig
from t2t_keras.workbench.server.service import Passage, ranked_texts, read_passage

TEXTS = [
    "",
    " \n\t",
    "One. Two.",
    "  One.  Two.\r\n\r\n\tthree\rfour \n",
    "Mr. Smith came. \u3000He left.\u2028Here too. \x0b x",
    "。一。二",
    "42\n\u2014 One. \u200b\n",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("split", [None, sentence_splitter("en")])
def test_its_own_sentences_give_the_text_back(text, split):
    passage = read_passage(text, splitter=split)
    assert passage.join(passage.sentences) == text
    assert all(sentence == sentence.strip() != "" for sentence in passage.sentences)
    assert not any(set("\r\n") & set(sentence) for sentence in passage.sentences)


def test_lines_and_sentences():
    text = " One. Two.\nthree\n"
    split = sentence_splitter("en")
    assert read_passage(text, splitter=split).sentences == ["One.", "Two.", "three"]
    assert read_passage(text).sentences == ["One. Two.", "three"]
    assert read_passage(text, split_lines=False).sentences == ["One. Two. three"]
    spaced = "at 5\u00a0km\n or\u3000more"
    assert read_passage(spaced, split_lines=False).sentences == ["at 5\u00a0km or\u3000more"]


@pytest.mark.parametrize(
    "line", ["42", "\u2014", "12:30 % \u20ac", "\u200b", "\ufeff", "\U0001f600"]
)
def test_what_has_no_letters_stays(line):
    passage = read_passage(f"One.\n{line}\nTwo", splitter=sentence_splitter("en"))
    assert passage.sentences == ["One.", "Two"]
    assert passage.join(["Eins.", "Zwei"]) == f"Eins.\n{line}\nZwei"


def test_sentences_that_chinese_does_not_space_are_apart():
    passage = read_passage("你好。再见。 是。\n", splitter=sentence_splitter("zh"))
    assert passage.join(["Hello.", "Bye.", "Yes."]) == "Hello. Bye. Yes.\n"
    assert passage.join(["今日は。", "またね。", "はい。"]) == "今日は。またね。 はい。\n"


def test_alternatives_are_joined_rank_by_rank_each_text_once():
    def ranked(*texts, postprocessed=""):
        hypotheses = tuple(Hypothesis(text, 0.0) for text in texts)
        return Translation(texts[0], 0.0, hypotheses, postprocessed=postprocessed)

    passage = read_passage("a\n b ")
    best = ranked("A", "A", "X\nY", "A", postprocessed="(A)")
    assert ranked_texts(passage, [best, ranked("B")]) == ["(A)\n B ", "A\n B ", "X Y\n B "]
    actual = ranked_texts(passage, [ranked("A", "C"), ranked("B", "D", "E")])
    assert actual == ["A\n B ", "C\n D ", "C\n E "]
    of_one = ranked_texts(read_passage("a"), [ranked("A", "C", postprocessed="(A)")])
    assert of_one == ["(A)", "C"]
    same = Passage(["a", "b"], ["", " ", ""])
    assert ranked_texts(same, [ranked("A B", "A"), ranked("C", "B C")]) == ["A B C"]
    assert ranked_texts(read_passage(" 42 "), []) == [" 42 "]


def test_long_texts_take_time_in_proportion():
    # Quadratic time would be minutes.
    text = "a" + " " * 200_000 + "b"
    assert read_passage(text).sentences == [text]
    assert not ends_sentence("!" * 200_000 + "a")
    assert ends_sentence(f"{text} (so.)")
    split = sentence_splitter("en")
    assert "".join(split("\u201c!" * 100_000)) == "\u201c!" * 100_000
    sentences = [f"Mr. Smith has {number} dogs. " for number in range(1_000)]
    assert split("".join(sentences)) == sentences
    assert "".join(split(text)) == text


class Repairing(UpperCase):
    """Repairs two placeholders of each line."""

    def translate(self, lines):
        translations = super().translate(lines)
        return [
            dataclasses.replace(translation, notes={"placeholders": 2})
            for translation in translations
        ]


def test_metrics_count_and_tell_no_text(serving, caplog):
    caplog.set_level(logging.INFO)
    url = serving([Source(translator=Repairing())], max_wait_ms=20.0).url
    httpx.post(f"{url}/translate", json={"q": ["secret text", "b"]} | ASKED)
    httpx.post(f"{url}/translate?q=secret", json=[])
    httpx.get(f"{url}/secret/path")
    answer = httpx.get(f"{url}/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = answer.text
    assert 't2t_serve_requests_total{method="POST",route="/translate",status="200"} 1.0' in text
    assert 't2t_serve_requests_total{method="POST",route="/translate",status="400"} 1.0' in text
    for name, labels, value in (
        ("lines_total", "", 2),
        ("characters_total", "", len("secret textb")),
        ("broken_placeholders_total", "", 4),
        ("batch_lines_bucket", 'le="1.0",', 0),
        ("batch_lines_bucket", 'le="2.0",', 1),
        ("batch_lines_sum", "", 2),
        ("batch_seconds_count", "", 1),
        ("queued_lines", "", 0),
    ):
        assert f't2t_serve_{name}{{{labels}model="en-de"}} {value}.0' in text
    assert "t2t_serve_requests_in_flight 1.0" in text, "this one"
    assert 't2t_serve_model_info{model="en-de",version="version-1"} 1.0' in text
    assert "secret" not in text
    for name in ('request_seconds_bucket{le="60.0",route', 'batch_lines_bucket{le="512.0",model'):
        assert f"t2t_serve_{name}=" in text
    [seconds] = re.findall(r'request_seconds_sum\{route="/translate"\} (.*)', text)
    logged = sum(map(int, re.findall(r"POST /translate \d+ (\d+) ms", caplog.text)))
    assert 19 < logged == pytest.approx(1000 * float(seconds), abs=1)
    assert logged < 60_000


def test_metrics_have_the_newest_models_name_not_its_path(monkeypatch):
    source = Source()
    app = make_app([source], ServerConfig(reload_seconds=0.0))
    client = TestClient(app, client=("127.0.0.1", 1))
    for path, name in (
        ("/srv/own/run/model.ckpt-5.safetensors", "model.ckpt-5"),
        ("/srv/exports/12", "12"),
        ("/srv/own/averaged/ctranslate2", "averaged"),
    ):
        monkeypatch.setattr(source, "newest_version", lambda path=path: (Path(path), path))
        assert app.state.context.service.models["en", "de"].reload_if_newer()
        text = client.get("/metrics").text
        assert re.findall(r't2t_serve_model_info\{.*version="(.*)"\} 1.0', text) == [name]
        assert "/srv" not in text


@pytest.mark.parametrize(
    ("address", "headers", "without_keys", "with_keys"),
    [
        ("127.0.0.1", {}, 200, 200),
        ("::1", {}, 200, 200),
        ("127.0.0.1", {"Host": "rebound.example.org"}, 403, 403),
        ("127.0.0.1", {"X-Forwarded-For": "8.8.8.8"}, 403, 403),
        ("127.0.0.1", {"Forwarded": "for=8.8.8.8"}, 403, 403),
        ("127.0.0.1", {"X-Real-IP": "8.8.8.8"}, 403, 403),
        ("8.8.8.8", {}, 403, 403),
        ("8.8.8.8", {"Authorization": "Bearer secret"}, 403, 200),
        ("8.8.8.8", {"Authorization": "Bearer other"}, 403, 403),
    ],
)
def test_metrics_are_for_this_machine_or_a_key(tmp_path, address, headers, without_keys, with_keys):
    (tmp_path / "keys").write_text("secret\n")
    for file, status in ((None, without_keys), (tmp_path / "keys", with_keys)):
        app = make_app([Source()], ServerConfig(api_keys_file=file, reload_seconds=0.0))
        client = TestClient(app, client=(address, 1), headers=headers)
        assert client.get("/metrics").status_code == status
        assert client.get("/health").status_code == 200
