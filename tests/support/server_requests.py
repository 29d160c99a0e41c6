"""Requests to t2t-serve, good and hostile, with the answers that they must get."""

import html
import json
import random
import urllib.parse
from typing import NamedTuple

JSON = {"Content-Type": "application/json"}
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
KEY, HOSTILE_KEYS = "load", ("hostile", "costly")
_AUTHORIZED = {"Authorization": f"DeepL-Auth-Key {KEY}"}
# Kinds of good requests, and which answers are right for them.
_GOOD = {
    "form": "plain",
    "json": "plain",
    "deepl": "plain",
    "html": "html",
    "alternatives": "alternatives",
    "terms": "with_terms",
}


Pair = tuple[str, str]


class Request(NamedTuple):
    """A request, and the answer that it must get: translations, a status, or one of several.

    With `cut` only the first bytes of the body are sent; then the client waits a moment and leaves.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    expected: list[str] | int | frozenset[int]
    cut: int | None = None

    def is_answered(self, answer: list[str] | int | str) -> bool:
        """Returns whether this is an expected answer."""
        if isinstance(self.expected, frozenset):
            return (200 if isinstance(answer, list) else answer) in self.expected
        return answer == self.expected


def make_requests(
    lines: list[str], answers: dict[str, list], count: int, pair: Pair
) -> list[Request]:
    """Returns requests for 1 to 4 of the lines each, one in ten of them malformed or hostile.

    Args:
      lines: to translate.
      answers: for all lines, by the names in `_GOOD`, and the terms of requests with a glossary.
      count: of the requests.
      pair: source and target language.
    """
    choose, requests = random.Random(0), []
    for number in range(count):
        rows = [choose.randrange(len(lines)) for _ in range(choose.randint(1, 4))]
        texts = [lines[row] for row in rows]
        if number % 10 == 3:
            turn, is_malformed = divmod(number // 10, 2)
            requests.append(_malformed(texts, turn, pair) if is_malformed else _hostile(turn, pair))
            continue
        kind = tuple(_GOOD)[number % len(_GOOD)]
        expected = [answers[_GOOD[kind]][row] for row in rows]
        if kind == "alternatives":
            expected = [terms[0] for terms in expected] + [
                terms[1] for terms in expected if terms[1:]
            ]
        requests.append(_good(texts, expected, kind, answers["terms"], pair))
    return requests


def _good(texts: list[str], expected: list[str], kind: str, terms: list, pair: Pair) -> Request:
    source, target = pair
    ours = {"q": texts, "source": source, "target": target, "api_key": KEY}
    if kind == "form":
        body = urllib.parse.urlencode(ours, doseq=True).encode()
        # A form with one text has one answer, which is no list.
        return Request("POST", "/translate", _FORM, body, expected)
    if kind == "deepl":
        theirs = {"text": texts, "source_lang": source.upper(), "target_lang": target.upper()}
        body = json.dumps(theirs).encode()
        return Request("POST", "/v2/translate", JSON | _AUTHORIZED, body, expected)
    path = "/translate"
    if kind == "html":
        ours |= {"q": list(map(as_html, texts)), "format": "html"}
    elif kind == "alternatives":
        ours["alternatives"] = 1
    elif kind == "terms":
        path = "/page/translate"
        ours |= {"q": "\n".join(texts), "glossary": terms}
    return Request("POST", path, JSON, json.dumps(ours).encode(), expected)


def as_html(line: str) -> str:
    """Returns the HTML that requests in HTML have for a line."""
    return f"<p><b>{html.escape(line)}</b> {html.escape(line)}</p>"


def _malformed(texts: list[str], number: int, pair: Pair) -> Request:
    """Returns a request that must be refused."""
    source, target = pair
    ours = {"q": texts, "source": source, "target": target}
    whole = json.dumps(ours | {"target": "xx"}).encode()
    large = json.dumps(ours | {"q": "a" * 300_000}).encode()
    theirs = {"text": ["<a>x"], "source_lang": source, "target_lang": target}
    xml = json.dumps(theirs | {"tag_handling": "xml"}).encode()
    kinds = (
        ("POST", "/translate", JSON, whole, 400),
        ("POST", "/translate", JSON, whole[:-5], 400),
        ("POST", "/translate", JSON, json.dumps({"q": texts}).encode(), 400),
        ("POST", "/translate", JSON, b"\xff\xfe", 400),
        ("POST", "/v2/translate", JSON, json.dumps({"target_lang": "DE"}).encode(), 400),
        ("POST", "/v2/translate", JSON, json.dumps({"text": texts}).encode(), 400),
        ("POST", "/v2/translate", JSON, xml, 400),
        ("GET", "/v2/glossaries/00000000-0000-4000-8000-000000000000", {}, b"", 404),
        ("POST", "/translat", JSON, whole, 404),
        ("GET", "/no/such/page", {}, b"", 404),
        ("POST", "/translate", JSON, large, 413),
    )
    if (chosen := number % (len(kinds) + 1)) == len(kinds):
        wrong = json.dumps(ours | {"api_key": "wrong"}).encode()
        return Request("POST", "/translate", JSON, wrong, 403)
    method, path, headers, *rest = kinds[chosen]
    return Request(method, path, headers | _AUTHORIZED, *rest)


def _hostile(number: int, pair: Pair) -> Request:
    """Returns a request that costs more than it seems to, or is sent only in part."""
    source, target = pair
    head = {"Authorization": f"DeepL-Auth-Key {HOSTILE_KEYS[0]}"}
    asked, authorized = {"source": source, "target": target}, JSON | head
    bounded, upload = (
        frozenset((200, 400, 413, 429, 503)),
        {"Content-Type": "multipart/form-data; "},
    )
    upload["Content-Type"] += "boundary=x; charset=punycode"

    def ours(path: str, expected: frozenset[int] = bounded, **values) -> Request:
        return Request("POST", path, authorized, json.dumps(asked | values).encode(), expected)

    def refused(status: int) -> frozenset[int]:
        return frozenset((status, 429, 503))

    part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    file = part + b"a" * 800_000
    terms = [[f"{term} " + "a" * 390, "b"] for term in range(7_500)]
    html_ = ours("/translate", q="Hello " + "<b>" * 1_600 + " world", format="html")
    kinds = (
        html_,
        html_._replace(cut=len(html_.body)),
        html_._replace(cut=100),
        ours("/translate", q="www.;<b " * 1_000),
        ours("/page/translate", q="a " * 500, glossary=[["a", "b"]]),
        ours("/page/translate", q="a", glossary=terms, expected=refused(413)),
        ours("/page/alternatives", q="a", prefix="x " * 400, expected=refused(400)),
        ours("/page/alternatives", q="a", prefix="e" + "\u0301" * 9_000, expected=refused(400)),
        Request("POST", "/translate", upload, file, refused(400)),
        Request("POST", "/translate_file", upload, file, refused(403), cut=400_000),
        Request("GET", f"/v2/usage?{'q=a&' * 15_000}", head, b"", refused(414)),
        Request("POST", "/translate", authorized, b'{"q": [' + b"[]," * 1_000_000, refused(413)),
    )
    return kinds[number % len(kinds)]


def read_answer(status: int, body: bytes) -> list[str] | int:
    """Returns the translations in an answer, or its status if it is not 200."""
    if status != 200:
        return status
    answer = json.loads(body)
    for name in ("translations", "lines"):
        if name in answer:
            return [translation["text"] for translation in answer[name]]
    texts = answer["translatedText"]
    texts = texts if isinstance(texts, list) else [texts]
    return texts + [text for texts in answer.get("alternatives", ()) for text in texts]
