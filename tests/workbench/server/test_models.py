"""Real models behind the server: what is served is what the translator gives, newer ones too."""

import concurrent.futures
import copy
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from unittest.mock import Mock

import deepl
import httpx
import pytest
from libretranslatepy import LibreTranslateAPI
from refusals import refused
from tiny_runs import PAIRS, TinyRun
from upper_case import Source, UpperCase

from t2t_keras.data.problem import Problem, make_problem
from t2t_keras.decoding.confidence import confidences
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.interop.importers.weights import lookup_tokenizer
from t2t_keras.serving.formats import write_format
from t2t_keras.training.run_config import RunConfig
from t2t_keras.workbench.server.models import ModelSource, ServedModel, Watcher
from t2t_keras.workbench.terms.glossary import Glossary
from t2t_keras.workbench.terms.stage import with_terms

LINES = [source for source, _ in PAIRS]
FEW = "extra_length=5,beam_size=2"


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    run = TinyRun(tmp_path_factory.mktemp("first"))
    run.save(10)
    return run


@pytest.fixture
def run(first_run, tmp_path):
    run = copy.copy(first_run)
    run.path = shutil.copytree(first_run.path, tmp_path / "run")
    return run


def source_of(run, engine, more=""):
    """The source of the run's model, by an engine."""
    path = run.path
    if engine == "ctranslate2":
        path = run.path.parent / "exports"
        write_format("ctranslate2", Translator.from_run(run.path), path / "0001", "float32")
    return ModelSource.parse(f"en-de={path}", "", FEW + more)


def translated(url, lines):
    asked = {"q": lines, "source": "en", "target": "de"}
    return httpx.post(f"{url}/translate", json=asked, timeout=60).json()["translatedText"]


@pytest.mark.parametrize("engine", ["keras", "ctranslate2"])
def test_what_is_served_is_what_the_translator_gives(run, serving, monkeypatch, engine):
    source = source_of(run, engine)
    expected = source.load()
    settings = expected.config
    assert (settings.return_beams, settings.check_placeholders) == (True, True)
    assert (settings.xla_for_one, settings.beam_size) == (engine == "keras", 2)
    texts = [translation.text for translation in expected.translate(LINES)]
    monkeypatch.setattr(ModelSource, "load", lambda _: expected)  # To compile it takes seconds.
    url = serving([source]).url
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        actual = list(pool.map(lambda line: translated(url, [line]), LINES * 4))
    assert actual == [[text] for text in texts * 4]
    [checked] = translated(url, ["A man sees %s."])  # The model itself does not keep it.
    assert checked.count("%s") == 1
    assert len(set(texts)) > 1

    # And what the page is told of the words.
    [translation], glossary = expected.translate(LINES[:1]), [["man", "Hund"], ["house", "Haus"]]
    asked = {"source": "en", "target": "de"}
    sent = {"q": f"{LINES[0]}\n\n", **asked}
    [line, blank, _] = httpx.post(f"{url}/page/translate", json=sent, timeout=60).json()["lines"]
    [confidence] = confidences(expected, LINES[:1], [translation])
    assert (line["source"], line["text"]) == (LINES[0], translation.text)
    assert line["source_words"] == LINES[0].split()
    assert [word["text"] for word in line["words"]] == translation.text.split()
    words = [word["confidence"] for word in line["words"]]
    assert words == pytest.approx(confidence.words, abs=1e-3)
    assert line["confidence"] == pytest.approx(confidence.whole, abs=1e-3)
    [alignment] = expected.align(LINES[:1], [translation])
    assert line["alignment"] == list(map(list, alignment))
    assert line["alternatives"][0] == translation.hypotheses[1].text
    assert (blank["text"], blank["words"], blank["confidence"]) == ("", [], 1.0)
    termed_request = sent | {"glossary": glossary}
    actual = httpx.post(f"{url}/page/translate", json=termed_request, timeout=60).json()["lines"]
    [termed] = with_terms(expected, Glossary.of(glossary)).translate(LINES[:1])
    assert actual[0]["text"] == termed.text != translation.text

    prefix = translation.text.split()[0]
    sent = {"q": f"{LINES[0]} {LINES[1]}", "prefix": prefix, **asked}
    actual = httpx.post(f"{url}/page/alternatives", json=sent, timeout=60).json()["alternatives"]
    assert len(actual) > 1
    assert len({alternative["word"] for alternative in actual}) == len(actual)
    assert all(
        alternative["text"].split()[:2] == [prefix, alternative["word"]] for alternative in actual
    )
    assert all(translation["text"].endswith(texts[1]) for translation in actual)
    sent = {"q": LINES[0], "prefix": "A. A", **asked}  # More sentences than the text has.
    actual = httpx.post(f"{url}/page/alternatives", json=sent, timeout=60).json()["alternatives"]
    assert all(translation["text"].startswith("A. A ") for translation in actual)

    tokenizer, config = expected.tokenizer, expected.config
    most = config.max_output_length(len(tokenizer.source.encode(LINES[:1])[0]))
    texts = {len(tokenizer.encode(["x" * count])[0]): "x" * count for count in range(99)}
    for prefix, status in ((texts[most], 200), (texts[most + 1], 400)):
        sent = {"q": LINES[0], "prefix": prefix, **asked}
        answer = httpx.post(f"{url}/page/alternatives", json=sent, timeout=60)
        assert answer.status_code == status

    for prefix in ("x " * 400, "e" + "\u0301" * 2_000, "\u05d0" * 2_000, "A. " * 3_400):
        used = httpx.get(f"{url}/v2/usage").json()["character_count"]
        sent = {"q": LINES[0], "prefix": prefix, **asked}
        assert httpx.post(f"{url}/page/alternatives", json=sent, timeout=60).status_code == 400
        more = httpx.get(f"{url}/v2/usage").json()["character_count"] - used
        assert more == (len(LINES[0] + prefix) if len(prefix) <= 10_000 else 0)


@pytest.mark.parametrize("engine", ["keras", "ctranslate2"])
def test_a_newer_version_replaces_the_old_one_while_it_serves(run, serving, engine):
    source = source_of(run, engine, ",xla_for_one=false")
    server = serving([source], reload_seconds=0.05)
    model, old = server.app.state.context.service.models["en", "de"], translated(server.url, LINES)
    run.save(20)
    if engine == "ctranslate2":
        assert translated(server.url, LINES) == old
        write_format("ctranslate2", Translator.from_run(run.path), source.path / "2", "float32")
    new = [translation.text for translation in source.load().translate(LINES)]
    assert new != old
    until, seen = time.monotonic() + 60, []
    while (response := translated(server.url, LINES)) != new:
        seen.append(response)
        assert time.monotonic() < until
    assert all(texts == old for texts in seen)
    assert model.model_path.endswith(
        "2" if engine == "ctranslate2" else "model.ckpt-20.safetensors"
    )
    # The new version answers shortly before it is counted.
    counted = 't2t_serve_reloads_total{model="en-de",outcome="ok"} 1.0'
    while counted not in httpx.get(f"{server.url}/metrics").text:
        assert time.monotonic() < until


def test_a_version_that_cannot_be_loaded_leaves_the_old_one(run, serving):
    server = serving([source_of(run, "keras", ",xla_for_one=false,check_placeholders=false")])
    before = translated(server.url, LINES)
    (run.path / "model.ckpt-30.safetensors").write_bytes(b"damaged")
    model = server.app.state.context.service.models["en", "de"]
    settings = model.translator.config
    assert (settings.xla_for_one, settings.check_placeholders) == (False, False)
    assert [model.reload_if_newer() for _ in range(4)] == [False] * 4
    assert translated(server.url, LINES) == before
    metrics = httpx.get(f"{server.url}/metrics").text
    assert 'outcome="failed"} 3.0' in metrics  # Then only when it changes.
    run.save(40, factor=float("nan"))
    assert not model.reload_if_newer()
    assert translated(server.url, LINES) == before


@pytest.mark.parametrize("error", [UserError("damaged"), MemoryError("too large")])
def test_whatever_goes_wrong_with_a_newer_version_it_is_looked_for_again(monkeypatch, error):
    source, outcomes = Source(), []
    model = ServedModel(source)
    model.observe_reload = outcomes.append
    source.version = 2
    with monkeypatch.context() as broken:
        broken.setattr(source, "load", Mock(side_effect=error))
        assert not model.reload_if_newer()
    assert model.reload_if_newer()
    assert outcomes == ["failed", "ok"]
    # Another version may fail as often as the first.
    source.version = 3
    monkeypatch.setattr(source, "load", Mock(side_effect=error))
    assert not any(model.reload_if_newer() for _ in range(5))
    assert outcomes[2:] == ["failed"] * 3


def test_what_changes_while_a_model_is_loaded_is_newer(monkeypatch):
    source = Source()

    def load():
        source.version += 1
        return source.translator

    monkeypatch.setattr(source, "load", load)
    model = ServedModel(source)
    assert [model.reload_if_newer() for _ in range(2)] == [True, True]


def test_weights_are_replaced_while_nobody_uses_them(monkeypatch):
    source, begun, leave, order = Source(), threading.Event(), threading.Event(), []
    source.translator.engine.models = [SimpleNamespace(set_weights=order.append)]
    monkeypatch.setattr(source, "newer_weights", lambda translator: "weights")
    model, engine, source.version = ServedModel(source), source.translator.engine, 2

    def use(translator, lines):
        begun.set()
        assert leave.wait(10)
        order.append(lines)

    def begin(function, *arguments):
        threads.append(threading.Thread(target=function, args=arguments, daemon=True))
        threads[-1].start()

    threads = []
    begin(model.use, use, "before", None)
    assert begun.wait(10)
    begin(model.reload_if_newer)
    while not model._is_closed:
        time.sleep(0.001)
    begin(model.use, use, "after", None)
    time.sleep(0.01)
    assert order == []
    leave.set()
    for thread in threads:
        thread.join(10)
    assert (order, model.model_path) == (["before", "weights", "after"], "version-2")
    assert model.translator.engine is engine, "only its users take turns"


@pytest.mark.parametrize("name", ["model", "hparams", "problem"])
def test_weights_of_another_model_are_not_taken(tmp_path, monkeypatch, name):
    (tmp_path / "run.json").touch()
    (tmp_path / "model.ckpt-9.safetensors").touch()
    before = {"model": 1, "hparams": 2, "problem": 3}
    monkeypatch.setattr(RunConfig, "read", lambda path: SimpleNamespace(**before | {name: 4}))
    loaded = SimpleNamespace(models=["a model"], run_config=SimpleNamespace(**before))
    assert ModelSource("en", "de", tmp_path).newer_weights(loaded) is None


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("", (True, True, True)),
        ("xla_for_one=false", (False, True, True)),
        ("xla=true,return_beams=false", (True, False, True)),
        ("check_placeholders=false", (True, True, False)),
    ],
)
def test_settings_of_a_server_do_not_replace_those_that_are_given(
    tmp_path, monkeypatch, settings, expected
):
    (tmp_path / "run.json").touch()
    (tmp_path / "model.ckpt-9.safetensors").touch()
    load = Mock(side_effect=UserError("It is not there."))
    monkeypatch.setattr(Translator, "from_stored", load)
    monkeypatch.setattr(RunConfig, "read", lambda path: SimpleNamespace(problem=Problem()))
    with pytest.raises(UserError):
        ModelSource("en", "de", tmp_path, "", settings).load()
    config = load.call_args[0][1]
    assert (config.xla_for_one, config.return_beams, config.check_placeholders) == expected


def test_the_watcher_looks_every_so_many_seconds_or_never():
    looked = threading.Event()
    model = Mock(reload_if_newer=looked.set)
    never = Watcher([model], 0)
    never.stop()
    assert not looked.wait(0.05)
    watcher = Watcher([model], 0.01)
    assert looked.wait(10)
    watcher.stop()
    looked.clear()
    assert not looked.wait(0.05)
    loaded, began = threading.Event(), time.monotonic()
    watcher = Watcher([Mock(reload_if_newer=lambda: looked.set() or loaded.wait(5))], 0.01)
    assert looked.wait(10)
    watcher.stop(0.01)
    assert time.monotonic() - began < 5, "what is being loaded is not waited for any longer"
    loaded.set()


def test_what_counts_as_a_newer_version(tmp_path):
    """The highest number of complete exports; or another file of the same name."""
    source = ModelSource("en", "de", tmp_path)
    for name in ("9", "010", "11.tmp", "x11"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "t2t_keras.json").write_text("one")
    (tmp_path / "12").mkdir()  # Nothing is in it yet.
    path, identity = source.newest_version()
    assert path.name == "010"
    record = path / "t2t_keras.json"
    times = record.stat().st_mtime_ns
    for change in ("time", "inode", "size"):
        if change == "inode":
            (path / "other").write_text("one")
            (path / "other").replace(record)
        elif change == "size":
            record.write_text("longer")
        os.utime(record, ns=(times, times + 1))
        before, identity = identity, source.newest_version()[1]
        assert identity != before, change
    assert source.newest_version()[1] == identity


def test_a_run_with_another_vocabulary_is_loaded_anew(run):
    """With the same settings, the weights of the old model would fit."""
    source, translator = ModelSource.parse(f"en-de={run.path}"), Translator.from_run(run.path)
    assert source.newer_weights(translator) is not None
    tokenizer = translator.tokenizer
    pieces = lookup_tokenizer(tokenizer.model_bytes, tokenizer.pieces(range(299)), "vocab.model")
    other_source = SimpleNamespace(model_bytes=tokenizer.model_bytes, source=pieces)
    for other in (pieces, other_source):
        translator.run_config = dataclasses.replace(translator.run_config, tokenizer=other)
        assert source.newer_weights(translator) is None


def test_nobody_waits_for_the_writer_of_a_fifo(tmp_path):
    """The watcher would, and keep the server from stopping."""
    (tmp_path / "run.json").touch()
    source = ModelSource("en", "de", tmp_path)
    file = tmp_path / "model.ckpt-9.safetensors"
    file.touch()
    assert source.newest_version()[0] == file
    file.unlink()
    os.mkfifo(file)
    with refused("not_a_file"):
        source.newest_version()
    for path in tmp_path.iterdir():
        path.unlink()
    (tmp_path / "t2t_keras.json").touch()
    assert source.newest_version()[0] == tmp_path
    os.mkfifo(tmp_path / "model.bin")
    with refused("not_a_file"):
        source.newest_version()
    os.mkfifo(tmp_path / "run.json")
    with refused("not_a_file"):
        RunConfig.load(tmp_path)


def test_an_export_in_a_run_that_is_trained_further_is_served(tmp_path):
    export = tmp_path / "ctranslate2"
    export.mkdir()
    record = {"checkpoint": None, "decoding": {}, "dtype": "int8", "positions": 0}
    (export / "t2t_keras.json").write_text(json.dumps(record))
    for name in ("run.json", "model.ckpt-9.safetensors"):
        (tmp_path / name).touch()
    assert ModelSource("en", "de", tmp_path, "ctranslate2").newest_version()[0] == export


def test_a_model_of_several_languages_serves_each_of_its_pairs(tmp_path, monkeypatch):
    record = {"checkpoint": None, "decoding": {}, "dtype": "int8", "positions": 0}
    (tmp_path / "t2t_keras.json").write_text(json.dumps(record))
    for name, config, target in (
        ("multilingual_text", "target_language=de", "fr"),
        ("parallel_text", "", ""),
    ):
        translator, asked = UpperCase(), []
        translator.problem = make_problem(name, config)

        def from_stored(*arguments, translator=translator, asked=asked):
            asked.append(arguments)
            return translator

        monkeypatch.setattr(Translator, "from_stored", from_stored)
        actual = ModelSource("en", "fr", tmp_path, decode_hparams="alpha=1.0").load()
        assert actual.problem.target_language == target
        settings = DecodeConfig(alpha=1.0, return_beams=True, check_placeholders=True)
        [(stored, config)] = asked
        assert (stored.model_path, stored.name, config) == (tmp_path, "ctranslate2 int8", settings)
        assert len(translator.calls) == 1, "it has translated before anyone waits for it"


def test_what_is_no_model_of_these_languages_is_refused(run):
    for text, code, named in (
        ("en-de", "bad_value", "--model"),
        ("english=runs", "bad_value", "'english'"),
        ("en-de=/nowhere", "no_model", "/nowhere"),
    ):
        with refused(code, named):
            ModelSource.parse(text)
    with refused("other_language", run.path, "en-fr"):
        ModelSource.parse(f"en-fr={run.path}").load()
    with refused("no_export", run.path, "ctranslate2"):
        ModelSource.parse(f"en-de={run.path}", "ctranslate2")


def test_the_command_serves_until_it_is_told_to_stop(run):
    flags = [f"--model=en-de={run.path}", "--port=0", f"--decode_hparams={FEW},xla_for_one=false"]
    command = [sys.executable, "-m", "t2t_keras.workbench.bin.t2t_serve", *flags]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    with subprocess.Popen(command, **pipes) as process:
        url = process.stdout.readline().removeprefix("Serving on ").strip()
        assert url.startswith("http://127.0.0.1:")
        translated = LibreTranslateAPI(url).translate(LINES[0], "en", "de")
        client = deepl.DeepLClient("key", server_url=url)
        assert client.translate_text(LINES[0], target_lang="DE").text == translated != ""
        client.close()
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
    assert process.returncode == 0, log
    assert "Traceback" not in log
    assert "POST /translate 200" in log
    assert LINES[0] not in log
