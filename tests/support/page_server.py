"""A stand-in for the server behind the page: it answers as t2t-serve does, by a table of words.

Known words become those of `TABLE`, others themselves; the last two words of a line change places.
"""

import collections
import contextlib
import email
import email.policy
import functools
import http.server
import json
import threading
from pathlib import Path

from t2t_keras.workbench.server import page

_KINDS = {".css": "text/css", ".js": "text/javascript"}
# English, German, how sure, and other words instead.
TABLE = {
    "the": ("das", 0.996, ["ein", "dieses"]),
    "house": ("Haus", 0.95, ["Gebäude", "Heim"]),
    "small": ("kleine", 0.82, ["winzige", "geringe"]),
    "red": ("rote", 0.61, ["rötliche"]),
    "reads": ("liest", 0.35, ["las", "studiert"]),
    "book": ("Buch", 0.88, ["Heft"]),
}
LANGUAGES = [
    {"code": "en", "name": "English", "targets": ["de", "en", "fr"]},
    {"code": "de", "name": "German", "targets": ["de", "en"]},
    {"code": "fr", "name": "French", "targets": ["fr"]},
]


def translate_line(line, glossary=()):
    """Returns what the server says of a line."""
    sources, terms = line.split(), dict(glossary)
    order = [*range(len(sources))]
    order[-2:] = order[-2:][::-1]
    words = []
    for place in order:
        word, confidence, _ = TABLE.get(sources[place], (sources[place], 0.99, []))
        word = terms.get(sources[place], word)
        words.append({"text": word, "confidence": confidence})
    text = " ".join(word["text"] for word in words)
    return {
        "source": line,
        "text": text,
        "source_words": sources,
        "words": words,
        "alignment": [[place, target] for target, place in enumerate(order)],
        "alternatives": [text + " !"] if sources else [],
        "confidence": min((word["confidence"] for word in words), default=1.0),
    }


def alternatives_of(line, prefix, glossary=()):
    """Returns other next words behind a prefix; the first is the one of the best translation."""
    words = [word["text"] for word in translate_line(line, glossary)["words"]]
    place = len(prefix.split())
    alternatives = next((actual[2] for actual in TABLE.values() if actual[0] == words[place]), [])
    return [
        {"word": word, "text": " ".join([*prefix.split(), word, *words[place + 1 :]])}
        for word in (words[place], *alternatives)
    ]


class PageServer:
    """What a test sets and sees of the server.

    Attributes:
      address: of the page.
      requests: (path, JSON or form) of those that were posted, in order.
      refusals: (status, JSON, headers) instead of an answer, by path.
      settings: what /frontend/settings says.
      files: translated files, by name.
    """

    def __init__(self):
        self.address = ""
        self.requests, self.refusals, self.files = [], {}, {}
        self._holding = collections.defaultdict(contextlib.nullcontext)
        suffixes = [".txt", ".po", ".html"]
        self.settings = {"charLimit": 2000, "keyRequired": False, "filesTranslation": True}
        self.settings["supportedFilesFormat"] = suffixes

    def asked(self, path):
        """Returns the bodies of the requests for a path."""
        return [body for actual, body in self.requests if actual == path]

    @contextlib.contextmanager
    def held(self, path):
        """Requests for a path that come meanwhile are answered at the end."""
        lock = self._holding[path] = threading.Lock()
        with lock:
            yield
            del self._holding[path]

    def wait_for(self, path):
        """Waits as long as requests for a path are held."""
        with self._holding[path]:
            pass

    def answer(self, path, body):
        """Returns the JSON of an answer to a posted request."""
        if path == "/detect":
            is_german = any(word in body["q"].split() for word in ("das", "Haus"))
            return [{"language": "de" if is_german else "en", "confidence": 90.0}]
        if path == "/page/translate":
            lines = body["q"].split("\n")
            return {"lines": [translate_line(line, body["glossary"]) for line in lines]}
        if path == "/page/alternatives":
            actual = alternatives_of(body["q"], body["prefix"], body["glossary"])
            return {"alternatives": actual}
        name, content = body["file"]
        name = Path(name).with_suffix(f".{body['target']}{Path(name).suffix}").name
        self.files[f"/download_file/{name}"] = content.upper()
        # As behind a proxy that goes by another name.
        return {"translatedFileUrl": f"http://elsewhere.invalid/download_file/{name}"}


def read_form(headers, content):
    """Returns the fields of a form; a file is (name, bytes)."""
    head = f"Content-Type: {headers['Content-Type']}\r\n\r\n".encode()
    message = email.message_from_bytes(head + content, policy=email.policy.HTTP)
    fields = {}
    for part in message.iter_parts():
        name, value = part.get_filename(), part.get_payload(decode=True)
        key = part.get_param("name", header="content-disposition")
        fields[key] = (name, value) if name else value.decode()
    return fields


class Handler(http.server.BaseHTTPRequestHandler):
    """The page's files, and the answers of a PageServer."""

    protocol_version = "HTTP/1.1"

    def __init__(self, stand_in, *args):
        self._stand_in = stand_in
        super().__init__(*args)

    def do_GET(self):
        if self._refuse():
            return
        if self.path == "/languages":
            self._reply(LANGUAGES)
        elif self.path == "/frontend/settings":
            self._reply(self._stand_in.settings)
        elif self.path in self._stand_in.files:
            self._send(200, self._stand_in.files[self.path], "text/plain")
        elif self.path == "/":
            self._send(200, page.index().encode(), "text/html; charset=utf-8")
        elif path := page.FILES.get(self.path[1:]):
            self._send(200, path.read_bytes(), _KINDS[path.suffix])
        else:
            self._reply({"error": "Not found"}, 404)

    def do_POST(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        is_form = self.headers["Content-Type"].startswith("multipart/")
        body = read_form(self.headers, content) if is_form else json.loads(content)
        self._stand_in.requests.append((self.path, body))
        self._stand_in.wait_for(self.path)
        if not self._refuse():
            self._reply(self._stand_in.answer(self.path, body))

    def _refuse(self):
        status, actual, headers = self._stand_in.refusals.get(self.path, (0, None, {}))
        if status:
            self._reply(actual, status, headers)
        return status

    def _reply(self, body, status=200, headers=()):
        self._send(status, json.dumps(body).encode(), "application/json", dict(headers))

    def _send(self, status, content, kind, headers=()):
        # A reader who typed on has hung up.
        with contextlib.suppress(ConnectionError):
            self.send_response(status)
            own = {"Content-Length": str(len(content)), "Content-Type": kind}
            own["Content-Security-Policy"] = page.SECURITY_POLICY
            for name, value in {**own, **dict(headers)}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(port=0):
    """Serves the page while it lasts; gives the PageServer."""
    stand_in = PageServer()
    handler = functools.partial(Handler, stand_in)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    stand_in.address = f"http://127.0.0.1:{server.server_port}/"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield stand_in
    finally:
        server.shutdown()
        server.server_close()
