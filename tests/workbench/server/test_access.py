"""Keys and limits."""

import json
import os
import time

import pytest
from refusals import refused
from upper_case import Clock

from t2t_keras.workbench.server.access import Access, ApiKeys
from t2t_keras.workbench.server.requests import ApiError


@pytest.fixture
def keys(tmp_path):
    """keys(text): the path of a file of keys."""

    def write(text):
        path = tmp_path / "keys.tsv"
        path.write_text(text)
        return path

    return write


def status_of(call, *arguments):
    with pytest.raises(ApiError) as refused:
        call(*arguments)
    return refused.value.status


def test_only_known_keys_are_let_in(keys):
    access = Access(ApiKeys(keys("# comment\n\n # 2\n secret \t mine \nOther\n")))
    assert access.admit("secret", "").name == "mine"
    assert access.admit("Other", "").name == "line 5"
    for wrong in ("", "secre", "Secret", "other", "# 2", "# comment"):
        assert status_of(access.admit, wrong, "") == 403
    assert "secret" not in repr(access.admit("secret", ""))


def test_without_keys_all_are_let_in_and_told_apart():
    access = Access()
    names = {access.admit(key, "here").identity for key in ("", "a", "b")}
    assert len(names) == 3


def test_without_keys_there_is_one_count_of_characters():
    access = Access()
    one, other = access.admit("a", ""), access.admit("", "")
    access.charge(one, 5)
    access.refund(one.identity, 2)
    assert access.characters_this_month(one) == access.characters_this_month(other) == 3


def test_a_minute_has_so_many_requests_of_a_key_or_an_address(keys):
    clock = Clock()
    own = Access(ApiKeys(keys("a\t\t2\nb\n")), requests_per_minute=3, clock=clock)
    for key, count in (("a", 2), ("b", 3)):
        for _ in range(count):
            own.admit(key, "same")
        assert status_of(own.admit, key, "same") == 429
    clock.now += 31  # Half of a's requests are there again.
    own.admit("a", "same")
    assert status_of(own.admit, "a", "same") == 429
    for guess, status in zip("cdef", (403, 403, 403, 429), strict=True):  # Nor may one guess.
        assert status_of(own.admit, guess, "guessing") == status
    addresses = Access(requests_per_minute=1, clock=clock)
    addresses.admit("any", "1.2.3.4")
    assert status_of(addresses.admit, "another", "1.2.3.4") == 429
    clock.now += 600  # Requests that nobody sent are not saved up.
    addresses.admit("any", "1.2.3.4")
    assert status_of(addresses.admit, "any", "1.2.3.4") == 429
    addresses.admit("any", "1.2.3.5")


@pytest.mark.parametrize(
    ("one", "other", "are_same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:DB8:1:2:0:0:0:1", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:1.2.3.4", "1.2.3.4", True),
        ("::ffff:102:304", "1.2.3.4", True),
        ("64:ff9b::1.2.3.4", "1.2.3.4", True),
        ("64:ff9b::1.2.3.4", "64:ff9b::1.2.3.5", False),
        ("fe80::1%eth0", "fe80::1%eth1", True),
        ("[2001:db8:1:2::1]", "2001:db8:1:2::1", True),
        ("1.2.3.4", "1.2.3.5", False),
        ("testclient", "elsewhere", False),
    ],
)
def test_all_addresses_of_one_network_have_one_limit(one, other, are_same):
    access = Access(requests_per_minute=1, clock=Clock())
    access.admit("", one)
    if are_same:
        assert status_of(access.admit, "", other) == 429
    else:
        access.admit("", other)


def test_whoever_came_longest_ago_is_forgotten_first(monkeypatch):
    monkeypatch.setattr("t2t_keras.workbench.server.access._MAX_BUCKETS", 2)
    access = Access(requests_per_minute=2, clock=Clock())
    for address in ("1.1.1.1", "2.2.2.2", "1.1.1.1", "3.3.3.3"):
        access.admit("", address)
    assert status_of(access.admit, "", "1.1.1.1") == 429
    for _ in range(2):
        access.admit("", "2.2.2.2")


def test_the_wait_that_is_asked_for_is_enough_and_no_longer():
    clock = Clock()
    access = Access(requests_per_minute=7, clock=clock)
    for _ in range(7):
        access.admit("", "a")
    with pytest.raises(ApiError) as refused:
        access.admit("", "a")
    assert refused.value.retry_after == 9  # The least whole number of seconds: 60 / 7.
    clock.now += refused.value.retry_after
    access.admit("", "a")


def test_characters_of_a_month_are_counted_kept_and_limited(keys, tmp_path):
    path = keys("a\tmine\t\t10\n")
    access = Access(ApiKeys(path), usage_file=tmp_path / "usage.json")
    client = access.admit("a", "")
    access.charge(client, 9)
    assert status_of(access.charge, client, 2) == 456
    access.charge(client, 1)  # Exactly as many as there may be.
    assert status_of(access.charge, client, 1) == 456
    access.refund(client.identity, 1)
    access.refund(client.identity, 3)
    access.save()
    again = Access(ApiKeys(path), usage_file=tmp_path / "usage.json")
    assert again.characters_this_month(again.admit("a", "")) == 6


def test_on_a_full_disk_characters_are_counted(tmp_path, caplog):
    (tmp_path / "file").touch()
    clock = Clock()
    access = Access(usage_file=tmp_path / "file" / "usage.json", clock=clock)
    clock.now += 61
    client = access.admit("", "")
    access.charge(client, 5)
    assert access.characters_this_month(client) == 5
    assert str(tmp_path / "file") in caplog.text


@pytest.mark.parametrize("today_later", ["2026-02-01", "2027-01-31"])
def test_characters_of_another_month_do_not_count(keys, tmp_path, today_later):
    today = time.strptime("2026-01-31", "%Y-%m-%d")
    path, usage = keys("a\t\t\t10\n"), tmp_path / "usage.json"
    access = Access(ApiKeys(path), usage_file=usage, calendar=lambda: today)
    client = access.admit("a", "")
    access.charge(client, 10)
    access.save()
    today = time.strptime(today_later, "%Y-%m-%d")
    again = Access(ApiKeys(path), usage_file=usage, calendar=lambda: today)
    for counter in (access, again):
        assert counter.characters_this_month(client) == 0
        counter.refund(client.identity, 10)  # For a file of last month.
        assert counter.characters_this_month(client) == 0
        counter.charge(client, 10)
        assert counter.characters_this_month(client) == 10


def test_counts_are_saved_once_a_minute(tmp_path):
    clock, usage = Clock(), tmp_path / "usage.json"
    access = Access(usage_file=usage, clock=clock)
    client = access.admit("", "")
    for seconds, saved in ((60, None), (61, 2), (121, 2), (122, 4)):
        clock.now = seconds
        access.charge(client, 1)
        assert (json.loads(usage.read_text())["characters"][""] if saved else None) == saved
        assert usage.exists() == bool(saved)


@pytest.mark.parametrize("characters", [3, {"a": "many"}, ["a"]])
def test_counts_that_no_server_has_written_are_refused(tmp_path, characters):
    month = time.strftime("%Y-%m", time.gmtime())
    usage = tmp_path / "usage.json"
    usage.write_text(json.dumps({"month": month, "characters": characters}))
    with refused("bad_value", "usage.json"):
        Access(usage_file=usage)


@pytest.fixture
def api_keys(keys):
    """A file with the key "a", and a clock by which it is looked at."""
    clock = Clock()
    api_keys = ApiKeys(keys("a\n"), clock)
    api_keys.clock = clock
    return api_keys


def test_a_changed_file_is_read_again_and_a_broken_one_is_not(keys, api_keys, caplog):
    path = keys("a\n")
    path.unlink()
    for _ in range(2):
        api_keys.clock.now += 2
        assert api_keys.find("a")
    assert len(caplog.records) == 1
    for text, known in (("b\n", "b"), ("x\ty\tz\n", "b"), ("c\n", "c")):
        keys(text)
        os.utime(path, (0, 0))  # Of equal time, and written long ago.
        for _ in range(2):
            api_keys.clock.now += 2
            assert api_keys.find(known)
    assert len(caplog.records) == 2
    assert "keys.tsv:1" in caplog.records[1].getMessage()
    assert api_keys.find("a") is None


def test_a_file_that_is_being_written_is_not_read(keys, api_keys):
    for text in ("s", "se", "secret", "secret\n"):
        keys(text)
        for _ in range(2):
            api_keys.clock.now += 1.4
            assert api_keys.find("a")
            assert not api_keys.find(text.strip())
    api_keys.clock.now += 2  # It has not changed for three seconds.
    assert api_keys.find("secret")
    assert not api_keys.find("a")


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        ("", "no_keys", "keys.tsv"),
        ("a\ta\tmany\n", "bad_line", "keys.tsv:1"),
        ("a\nb\na\n", "given_twice", "keys.tsv:3"),
        ("\tname\n", "bad_line", "keys.tsv:1"),
        ("a\tb\t1\t2\t3\n", "bad_line", "keys.tsv:1"),
    ],
)
def test_wrong_files_are_named(keys, text, code, named):
    with refused(code, named):
        ApiKeys(keys(text))
