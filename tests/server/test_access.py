"""Keys and limits."""

import os

import pytest

from t2t_keras.errors import UserError
from t2t_keras.server.access import Access, ApiKeys
from t2t_keras.server.messages import ApiError


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


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
    access = Access(ApiKeys(keys("# comment\n\nsecret\tmine\nother\n")))
    assert access.client("secret", "").name == "mine"
    assert access.client("other", "").name == "line 4"
    assert status_of(access.client, "", "") == 403
    assert status_of(access.client, "secre", "") == 403
    assert "secret" not in repr(access.client("secret", ""))


def test_without_keys_all_are_let_in_and_told_apart():
    access = Access()
    names = {access.client(key, "here").identity for key in ("", "a", "b")}
    assert len(names) == 3


def test_a_minute_has_so_many_requests_of_a_key_or_an_address(keys):
    clock = Clock()
    own = Access(ApiKeys(keys("a\t\t2\nb\n")), requests_per_minute=3, clock=clock)
    for key, count in (("a", 2), ("b", 3)):
        for _ in range(count):
            own.client(key, "same")
        assert status_of(own.client, key, "same") == 429
    clock.now += 31  # Half of a's requests are there again.
    own.client("a", "same")
    assert status_of(own.client, "a", "same") == 429
    for status in (403, 403, 403, 429):  # Nor may one guess.
        assert status_of(own.client, "wrong", "guessing") == status
    addresses = Access(requests_per_minute=1, clock=clock)
    addresses.client("any", "1.2.3.4")
    assert status_of(addresses.client, "another", "1.2.3.4") == 429
    addresses.client("any", "1.2.3.5")


def test_the_wait_that_is_asked_for_is_enough():
    clock = Clock()
    access = Access(requests_per_minute=7, clock=clock)
    for _ in range(7):
        access.client("", "a")
    with pytest.raises(ApiError) as refused:
        access.client("", "a")
    clock.now += refused.value.retry_after
    access.client("", "a")


def test_characters_of_a_month_are_counted_kept_and_limited(keys, tmp_path):
    path = keys("a\tmine\t\t10\n")
    access = Access(ApiKeys(path), usage_file=tmp_path / "usage.json")
    client = access.client("a", "")
    access.charge(client, 9)
    assert status_of(access.charge, client, 2) == 456
    access.refund(client.identity, 3)
    access.save()
    again = Access(ApiKeys(path), usage_file=tmp_path / "usage.json")
    assert again.characters(again.client("a", "")) == 6


def test_on_a_full_disk_characters_are_counted(tmp_path, caplog):
    (tmp_path / "file").touch()
    clock = Clock()
    access = Access(usage_file=tmp_path / "file" / "usage.json", clock=clock)
    clock.now += 61
    client = access.client("", "")
    access.charge(client, 5)
    assert access.characters(client) == 5
    assert "are not saved" in caplog.text


def test_a_changed_file_is_read_again_and_a_broken_one_is_not(keys, monkeypatch, caplog):
    path = keys("a\n")
    clock = Clock()
    monkeypatch.setattr("t2t_keras.server.access.time.monotonic", clock)
    found = ApiKeys(path)
    path.unlink()
    for _ in range(2):
        clock.now += 2
        assert found.find("a")
    assert caplog.text.count("No such file") == 1
    for number, (text, known) in enumerate((("b\n", "b"), ("x\ty\tz\n", "b"), ("c\n", "c"))):
        keys(text)
        os.utime(path, ns=(number, number))
        clock.now += 2
        for _ in range(2):
            clock.now += 2
            assert found.find(known)
        assert caplog.text.count("keys.tsv:1: expected key") == bool(number)
    assert found.find("a") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no keys"),
        ("a\ta\tmany\n", "keys.tsv:1: expected key, name"),
        ("a\nb\na\n", "keys.tsv:3: this key is there twice"),
        ("\tname\n", "keys.tsv:1"),
        ("a\tb\t1\t2\t3\n", "keys.tsv:1"),
    ],
)
def test_wrong_files_are_named(keys, text, message):
    with pytest.raises(UserError, match=message):
        ApiKeys(keys(text))
