"""API keys, rate limits, and monthly character quotas."""

import hashlib
import io
import ipaddress
import logging
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.io.files import read_json, write_json
from t2t_keras.settings import convert
from t2t_keras.text.files import decoded, is_blank, lines_of, reading
from t2t_keras.workbench.server.requests import ApiError

_LOG = logging.getLogger("t2t_keras.server")

# Beyond this number of clients, the least recently used rate-limit buckets are dropped.
_MAX_BUCKETS = 10_000
_SECONDS_BETWEEN_SAVES = 60.0
# A changed key file is reread only after this time without changes: earlier it may be incomplete.
_SECONDS_UNCHANGED = 3.0
_SECONDS_BETWEEN_CHECKS = 1.0
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def network_of(address: str) -> str:
    """Returns the network to which limits apply: an IPv4 address, or the /64 of an IPv6 address.

    A client with one address in a /64 usually has the whole /64.
    """
    try:
        ip = ipaddress.ip_address(address.strip("[]"))
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    if ip.ipv4_mapped:
        return str(ip.ipv4_mapped)
    if ip in _NAT64:
        return str(ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF))
    return str(ipaddress.ip_network((ip, 64), strict=False))


class ApiKey(NamedTuple):
    """A key's name and limits. A rate of 0 is the server's default; a quota of 0 is no quota."""

    name: str
    requests_per_minute: int = 0
    characters_per_month: int = 0


class Client(NamedTuple):
    """The sender of a request.

    Attributes:
      identity: hash that identifies the owner of glossaries and files, and hides the key.
      name: name in the log.
      key: limits of the client.
    """

    identity: str
    name: str
    key: ApiKey


ANYONE = Client("", "", ApiKey(""))


class ApiKeys:
    """Keys from a file; a line has key, name, requests per minute and characters per month.

    Tabs separate the columns. An empty or 0 rate means the server's rate; an empty or 0 number of
    characters means no quota. Lines that start with # are comments. The file is reread when its
    content has changed and is no longer being written.

    Args:
      path: the file.
      clock: returns monotonic seconds.

    Raises:
      UserError: the file cannot be read, or a line has another format.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic):
        self._path, self._clock, self._checked_at = path, clock, clock()
        with reading(path) as file:
            self._content = file.read()
        self._keys = _read_keys(self._content, path)
        # The newest content of the file, and the time when it was first seen.
        self._newest = self._content, self._checked_at
        self._failure = ""  # the last attempt's error

    def find(self, key: str) -> ApiKey | None:
        """Returns the limits of a key; None = unknown key."""
        now = self._clock()
        if now - self._checked_at > _SECONDS_BETWEEN_CHECKS:
            self._checked_at = now
            self._reload_if_changed(now)
        return self._keys.get(_digest(key))

    def _reload_if_changed(self, now: float) -> None:
        """Reads the keys again if the file has changed and is complete."""
        failure = ""
        try:
            with reading(self._path) as file:
                content = file.read()
                age = time.time() - os.fstat(file.fileno()).st_mtime
            if content != self._newest[0]:
                self._newest = content, now
            seconds_unchanged = max(age, now - self._newest[1])
            if content != self._content and seconds_unchanged >= _SECONDS_UNCHANGED:
                self._keys, self._content = _read_keys(content, self._path), content
        except UserError as error:
            failure = str(error)
            if failure != self._failure:
                _LOG.error("The previous keys stay valid: %s", failure)
        self._failure = failure


def _read_keys(content: bytes, path: Path) -> dict[str, ApiKey]:
    keys = {}
    for number, raw_line in enumerate(lines_of(io.BytesIO(content), path), 1):
        line = decoded(raw_line, path, number)
        if is_blank(line) or line.lstrip().startswith("#"):
            continue
        key, name, *limits = [*(part.strip() for part in line.split("\t")), "", ""][:5]
        name = name or f"line {number}"
        limits = [limit or "0" for limit in limits[:2]]
        if not key or not all(limit.isdecimal() for limit in limits) or line.count("\t") > 3:
            raise UserError(
                f"{path}:{number}: expected key, name, requests a minute and characters a month, "
                f"separated by tabs; only the key is required.",
                code="bad_line",
            )
        if _digest(key) in keys:
            raise UserError(
                f"{path}:{number}: duplicate key. Remove one of the lines.", code="given_twice"
            )
        keys[_digest(key)] = ApiKey(name, *map(int, limits))
    if not keys:
        raise UserError(f"{path} has no keys: write one per line.", code="no_keys")
    return keys


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


class Access:
    """Admits clients, limits their request rate, and counts their characters.

    Args:
      keys: the known keys; None = any key is accepted, and none is needed.
      requests_per_minute: limit for an address, or for a key without its own limit; 0 = no limit.
      usage_file: stores the counts; None = they stay in memory only.
      clock: returns monotonic seconds.
      calendar: returns the current date in UTC.
    """

    def __init__(
        self,
        keys: ApiKeys | None = None,
        requests_per_minute: int = 0,
        usage_file: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        calendar: Callable[[], time.struct_time] = time.gmtime,
    ):
        self._calendar = calendar
        self._keys, self._requests_per_minute = keys, requests_per_minute
        self._usage_file, self._clock = usage_file, clock
        self._buckets: dict[str, tuple[float, float]] = {}  # by owner: tokens, and when counted
        self._month, self._usage = self._this_month(), dict[str, int]()
        if usage_file and usage_file.exists():
            advice = "Remove it: the counts of characters then start over."
            saved = read_json(usage_file, advice, ("month", "characters"))
            if saved["month"] == self._month:
                self._usage = convert(saved["characters"], Mapping[str, int], str(usage_file))
        self._saved_at = clock()

    @property
    def needs_key(self) -> bool:
        """Whether a key is needed."""
        return self._keys is not None

    def recognizes(self, key: str) -> bool:
        """Returns whether a key may be used, without counting a request."""
        return self._keys is None or self._keys.find(key) is not None

    def admit(self, key: str, address: str) -> Client:
        """Returns the sender of a request, and counts the request.

        Raises:
          ApiError: 403, the key is missing or unknown; 429, too many requests.
        """
        address, limits = network_of(address), ApiKey("")
        if self._keys is not None:
            known_key = self._keys.find(key) if key else None
            if known_key is None:
                self._limit_rate(address, limits)  # Slows down guessing.
                message = "Please contact the server operator to get an API key"
                raise ApiError(403, "Invalid API key" if key else message)
            limits = known_key
        # Without a key file, a key still names the owner of glossaries, as DeepL's clients expect.
        identity = _digest(key)[:32] if key else ""
        self._limit_rate(identity if self._keys is not None else address, limits)
        return Client(identity, limits.name, limits)

    def _limit_rate(self, owner: str, limits: ApiKey) -> None:
        limit = limits.requests_per_minute or self._requests_per_minute
        if not limit:
            return
        now = self._clock()
        old_tokens, counted_at = self._buckets.pop(owner, (float(limit), now))
        tokens = min(old_tokens + (now - counted_at) * limit / 60, limit)
        # Reinserted at the end: the first buckets are the least recently used.
        self._buckets[owner] = (tokens - 1 if tokens >= 1 else tokens, now)
        while len(self._buckets) > _MAX_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
        if tokens < 1:
            seconds = math.ceil((1 - tokens) * 60 / limit)
            raise ApiError(429, f"Too many requests: more than {limit} in a minute", seconds)

    def characters_this_month(self, client: Client) -> int:
        """Returns the number of characters charged to a client this month."""
        if (month := self._this_month()) != self._month:
            self._month, self._usage = month, {}
        return self._usage.get(self._account(client.identity), 0)

    def _account(self, identity: str) -> str:
        # Without a key file, all clients share one count.
        return identity if self.needs_key else ""

    def charge(self, client: Client, characters: int) -> None:
        """Counts the characters of a request.

        Raises:
          ApiError: 456, the characters exceed the key's monthly quota.
        """
        characters_used = self.characters_this_month(client) + characters
        if 0 < client.key.characters_per_month < characters_used:
            raise ApiError(456, "Quota for this billing period has been exceeded.")
        self._usage[self._account(client.identity)] = characters_used
        if self._clock() - self._saved_at > _SECONDS_BETWEEN_SAVES:
            self.save()

    def refund(self, identity: str, characters: int) -> None:
        """Refunds the characters of a failed request."""
        account = self._account(identity)
        self._usage[account] = max(self._usage.get(account, 0) - characters, 0)

    def save(self) -> None:
        """Writes the counts; if the disk is full, they stay in memory."""
        self._saved_at = self._clock()
        if self._usage_file:
            content: Mapping = {"month": self._month, "characters": self._usage}
            try:
                write_json(self._usage_file, content)
            except UserError as error:
                _LOG.error("The counts of characters are not saved: %s", error)

    def _this_month(self) -> str:
        return time.strftime("%Y-%m", self._calendar())
