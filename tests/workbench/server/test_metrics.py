"""Metrics: what they count, what they reveal, and who may read them."""

import dataclasses
import logging
import re
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient
from upper_case import Source, UpperCase

from t2t_keras.workbench.server.app import make_app
from t2t_keras.workbench.server.config import ServerConfig

ASKED = {"source": "en", "target": "de"}


class Repairing(UpperCase):
    """Repairs two placeholders of each line."""

    def translate(self, lines):
        found = super().translate(lines)
        return [dataclasses.replace(each, notes={"placeholders": 2}) for each in found]


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


def test_metrics_have_the_newest_models_name_not_its_path(monkeypatch):
    source = Source()
    app = make_app([source], ServerConfig(reload_seconds=0.0))
    client = TestClient(app, client=("127.0.0.1", 1))
    for path, name in (
        ("/srv/own/run/model.ckpt-5.safetensors", "model.ckpt-5"),
        ("/srv/exports/12", "12"),
        ("/srv/own/averaged/ctranslate2", "averaged"),
    ):
        monkeypatch.setattr(source, "newest", lambda path=path: (Path(path), path))
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
