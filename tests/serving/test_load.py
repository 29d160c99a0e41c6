"""A small load: all answers right, all that is malformed refused, none lost."""

import pytest


@pytest.fixture(scope="module")
def serving_load(root, load_module):
    return load_module(root / "benchmarks" / "serving_load.py")


def test_a_small_load(serving_load, server, translator, lines):
    translations = [translation.text for translation in translator.translate(lines)]
    requests = serving_load.make_requests(lines, translations, 100)
    report = serving_load.load(server, requests, clients=8, limit=120)
    assert report.outcomes == {"good": 90, "refused": 10, "lost": 0}, report.first_wrong
    assert len(report.latencies) == 90
    assert report.memory[-1] < 1.2 * report.memory[0]


def test_requests_are_of_all_kinds(serving_load):
    requests = serving_load.make_requests(["a b", "c"], ["A B", "C"], 400)
    good = [request for request in requests if not isinstance(request.expected, str)]
    assert len(good) == 360
    assert {len(request.expected) for request in good} == {1, 2, 3, 4}
    assert sum(request.rest is not None for request in good) == 80
    refused = [request for request in requests if isinstance(request.expected, str)]
    assert sum(request.expected == "FAILED_PRECONDITION" for request in refused) == 10


def test_wrong_answers_and_lost_requests_are_counted(serving_load, server, lines):
    requests = serving_load.make_requests(lines, ["?"] * len(lines), 4)
    report = serving_load.load(server, requests, clients=2, limit=60)
    assert report.outcomes == {"wrong": 3, "refused": 1, "lost": 0}
    assert "was expected" in report.first_wrong
    none_sent = serving_load.load(server, requests, clients=2, limit=0)
    assert none_sent.outcomes == {"lost": 4}
