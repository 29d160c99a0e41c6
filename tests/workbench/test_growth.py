"""The work on a text grows as the text does, for every text function and route of the server.

Each function gets motifs, repeated to a quarter, a half and all of the characters. The exponent is
n if the work beyond that of the quarter grows as the n-th power of the length. Work is either the
number of calls of Python and C functions, which other programs do not disturb, or seconds of the
processor, which also count work inside a call. A model's stand-in copies its input.
"""

import asyncio
import contextlib
import gc
import itertools
import json
import math
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote_plus

import httpx
import numpy as np
import pytest

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engine import Engine, Output
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.text.alignment import split_words
from t2t_keras.text.sentences import sentence_splitter, sentences
from t2t_keras.text.tokenizer import SentencePieceTokenizer
from t2t_keras.workbench.documents import EXTENSIONS, read_document, translate_document
from t2t_keras.workbench.markup.reading import read_fragment
from t2t_keras.workbench.markup.translator import MarkupTranslator, translate_markup
from t2t_keras.workbench.placeholders.finding import find, missing
from t2t_keras.workbench.placeholders.stage import count_wrong, repair
from t2t_keras.workbench.placeholders.symbols import shield
from t2t_keras.workbench.server.app import make_app
from t2t_keras.workbench.server.config import ServerConfig
from t2t_keras.workbench.server.glossaries import read_entries
from t2t_keras.workbench.server.languages import detect
from t2t_keras.workbench.server.requests import ApiError
from t2t_keras.workbench.server.service import read_passage
from t2t_keras.workbench.terms.glossary import Glossary, with_hints, without_hints
from t2t_keras.workbench.terms.stage import with_terms
from t2t_keras.workbench.terms.uses import find_uses

MOST = 1.2
# Function and motif, or "" = every motif: why its exponent may be higher.
KNOWN: Mapping[tuple[str, str], str] = {
    ("file .md", "**a"): "a long paragraph that is read otherwise is written in up to four ways",
    ("glossary matches", ""): "1.0 in calls: 0.1 s, the words no longer fit into the cache",
    ("terms hints", ""): "1.0 in calls: as glossary matches",
}

# Kinds of text: plain, long words, marks of every format, nested and unclosed.
MOTIFS = (
    *("a ", "a", "A. ", "a b c. ", "\n", "a\n", "\r", " ", "\t", "a\tb\n", "\u200b", "\u00a0"),
    *("It ran. ", 'a"\n"', "<a"),
    *("e\u0301", "\u05d0", "\u3002", "\u4e2d", "\U0001f600", "\u2028", "...", '"', "'", "(", ")a"),
    *("<b>", "</b>", "<b>a</b> ", "<", ">", "<a href='", "<!--", "<!-- a -->", "<![CDATA[", "<br>"),
    *("<p>a", "<code>a</code> ", "&", "&amp;", "&#0000", "www.;<b ", "http://a.b/", "a@b.c "),
    *("%s ", "%(a)s", "%a%", "{0}", "{", "}", "{0, plural, one {", "${a}", "{{a}} ", ":a ", "$a "),
    *("*", "**a", "_a_ ", "`", "`a` ", "[", "](", "[a](b) ", "![", "~~~\n", "> ", "- a\n"),
    *("1. a\n", "# a\n", "|a", "|a|\n|-|\n", "$a$ ", ":::\n", "\\", "\\*", "[^1]", "=\n"),
    *("---\n", "_", "&a ", 'msgid "a"\n', 'msgstr ""\n\n', "<g id='1'>", "<x/>"),
    "1\n00:00:01,000 --> 00:00:02,000\na\n\n",
)


class _Copier(Engine):
    """Copies its input, each token attending to itself."""

    name = "copier"

    def __init__(self, config: DecodeConfig):
        self.config = config

    def outputs(
        self, sources: Sequence[np.ndarray], prefixes: Sequence[np.ndarray], numbers: Sequence[int]
    ) -> list[list[Output]]:
        pairs = zip(sources, prefixes, strict=True)
        return [[Output([*begin, *ids[len(begin) :]], 0.0)] for ids, begin in pairs]

    def log_probs(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, np.ndarray]]:
        return enumerate(np.full(len(target), -1.0, np.float32) for target in targets)

    def next_symbols(self, source: np.ndarray, prefix: np.ndarray, count: int) -> list[int]:
        return list(dict.fromkeys(map(int, source[:-1])))[:count]

    def cross_attention(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, np.ndarray]]:
        pairs = zip(targets, sources, strict=True)
        return enumerate(
            np.eye(len(target), len(source), dtype=np.float32) for target, source in pairs
        )

    def check_attention(self) -> None:
        raise UserError("There is none.")

    attention = cross_attention


class _Source(NamedTuple):
    """A `ModelSource` of an existing translator."""

    translator: Translator
    source: str = "en"
    target: str = "de"

    @property
    def pair(self) -> tuple[str, str]:
        return self.source, self.target

    def newest_version(self) -> tuple[Path, int]:
        return Path("copier"), 1

    def load(self) -> Translator:
        return self.translator


def _translator() -> Translator:
    tokenizer = SentencePieceTokenizer.train(["a b c d e the word"] * 9, 275)
    # Short parts, as the work jumps where a line is first split.
    config = DecodeConfig(
        beam_size=1,
        return_beams=True,
        check_placeholders=True,
        split_long=True,
        max_input_length=32,
    )
    problem = Problem(source_language="en", target_language="de")
    return Translator(_Copier(config), tokenizer, config, problem=problem)


class _Site(NamedTuple):
    """A request made from a text."""

    method: str
    path: str
    kind: str
    content: Callable[[str], str | bytes]


def _json(**fields) -> Callable[[str, str], Callable[[str], str]]:
    return lambda name: lambda text: json.dumps({name: text} | fields)


_ASKED, _ASKED_DEEPL = {"source": "en", "target": "de"}, {"source_lang": "EN", "target_lang": "DE"}
_TERMS = [["a", "b"], ["b c", "d"]]
_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"


def _upload(ending: str, fields: Mapping[str, str]) -> Callable[[str], bytes]:
    heads = [f'--x\r\nContent-Disposition: form-data; name="{name}"' for name in (*fields, "file")]
    heads[-1] += f'; filename="a{ending}"'

    def content(text: str) -> bytes:
        contents = [*fields.values(), text]
        parts = (
            f"{head}\r\n\r\n{content}\r\n" for head, content in zip(heads, contents, strict=True)
        )
        return ("".join(parts) + "--x--\r\n").encode()

    return content


ROUTES: dict[str, _Site] = {
    "text": _Site("POST", "/translate", _JSON, _json(**_ASKED)("q")),
    "html": _Site("POST", "/translate", _JSON, _json(**_ASKED, format="html")("q")),
    "form": _Site(
        "POST", "/translate", _FORM, lambda text: f"q={quote_plus(text)}&source=en&target=de"
    ),
    "raw form": _Site("POST", "/translate", _FORM, lambda text: text),
    "raw JSON": _Site("POST", "/translate", _JSON, lambda text: text),
    "address": _Site("GET", "/v2/usage", "", lambda text: ""),
    "detect": _Site("POST", "/detect", _JSON, _json()("q")),
    "deepl": _Site("POST", "/v2/translate", _JSON, _json(**_ASKED_DEEPL)("text")),
    "deepl html": _Site(
        "POST", "/v2/translate", _JSON, _json(**_ASKED_DEEPL, tag_handling="html")("text")
    ),
    "deepl xml": _Site(
        "POST", "/v2/translate", _JSON, _json(**_ASKED_DEEPL, tag_handling="xml")("text")
    ),
    "terms": _Site("POST", "/page/translate", _JSON, _json(**_ASKED, glossary=_TERMS)("q")),
    "prefix": _Site("POST", "/page/alternatives", _JSON, _json(**_ASKED, q="a b c.")("prefix")),
    "alternatives": _Site("POST", "/page/alternatives", _JSON, _json(**_ASKED, prefix="a")("q")),
    "glossary": _Site(
        "POST",
        "/v2/glossaries",
        _JSON,
        _json(**_ASKED_DEEPL, name="a", entries_format="tsv")("entries"),
    ),
    "file": _Site(
        "POST", "/translate_file", "multipart/form-data; boundary=x", _upload(".txt", _ASKED)
    ),
}


# What surrounds a text in files of some formats; texts that do not fit are refused.
_AROUND = {
    ".po": ('msgid "', '"\nmsgstr ""\n'),
    ".srt": ("1\n00:00:01,000 --> 00:00:02,000\n", "\n"),
    ".xml": ("<a>", "</a>"),
    ".xlf": (
        (
            '<xliff version="1.2"><file source-language="en" target-language="de" original="a" '
            'datatype="plaintext"><body><trans-unit id="1"><source>'
        ),
        "</source></trans-unit></body></file></xliff>",
    ),
    ".tmx": (
        '<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>',
        "</seg></tuv></tu></body></tmx>",
    ),
}


async def _ask(translator: Translator, route: _Site, text: str) -> None:
    # No motif is cut short by its budget.
    config = ServerConfig(reload_seconds=0.0, max_wait_ms=0.0, max_job_seconds=600.0)
    app = make_app([_Source(translator)], config)
    query = f"?{quote_plus(text)[:60_000]}" if route.path == "/v2/usage" else ""
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://localhost"
        ) as client,
    ):
        await client.request(
            route.method,
            f"{route.path}{query}",
            content=route.content(text),
            headers={"Content-Type": route.kind} if route.kind else None,
            timeout=600,
        )


def functions() -> dict[str, Callable[[str], object]]:
    """Returns functions of a text by name; they may raise `UserError`."""
    translator, glossary = _translator(), Glossary.of(_TERMS)
    termed = with_terms(translator, glossary)
    split = sentence_splitter("en")

    def translated_file(ending: str) -> Callable[[str], None]:
        def translate(text: str) -> None:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / f"a{ending}"
                before, after = _AROUND.get(ending, ("", ""))
                path.write_text(f"{before}{text}{after}", encoding="utf-8", newline="")
                document = read_document(path, "en", "de")
                translate_document(document, MarkupTranslator(translator))
                document.content()

        return translate

    def unlike(text: str) -> str:
        return text[: len(text) // 2]

    actual: dict[str, Callable[[str], object]] = {
        "words": split_words,
        "sentences": lambda text: sentences(text, "en"),
        "passages": lambda text: read_passage(text, splitter=split),
        "language": lambda text: detect([text], ["de", "en"]),
        "placeholders find": find,
        "placeholders missing": lambda text: missing(text, unlike(text)),
        "placeholders shield": lambda text: shield(text, (), True).restore(text),
        "placeholders broken": lambda text: count_wrong(text, unlike(text)),
        "placeholders repair": lambda text: repair(text, unlike(text), []),
        "markup html": lambda text: read_fragment(text, "html"),
        "markup xml": lambda text: read_fragment(text, "xml"),
        "glossary matches": glossary.matches,
        "glossary entries": lambda text: read_entries(text, "tsv", ("en", "de")),
        "glossary csv": lambda text: read_entries(text, "csv", ("en", "de")),
        "terms uses": lambda text: find_uses(text, glossary.matches(text), unlike(text)),
        "terms hints": lambda text: without_hints(
            with_hints(text, ((m.start, m.end, m.term.target) for m in glossary.matches(text)))
        ),
        "translate text": lambda text: translator.translate(text.split("\n")),
        "translate terms": lambda text: termed.translate([text.replace("\n", " ")]),
        "translate html": lambda text: translate_markup(translator, [text], "html"),
        "translate xml": lambda text: translate_markup(translator, [text], "xml"),
        "translate html terms": lambda text: translate_markup(termed, [text], "html"),
    }
    # Word files are not text; their paragraphs are read as XML.
    for ending in sorted(set(EXTENSIONS) - {".docx"}):
        actual[f"file {ending}"] = translated_file(ending)
    for name, route in ROUTES.items():
        actual[f"route {name}"] = lambda text, route=route: asyncio.run(
            _ask(translator, route, text)
        )
    return actual


class Growth(NamedTuple):
    """Growth of the work of a function with a motif."""

    function: str
    motif: str
    work: tuple[float, ...]
    exponent: float


def work_of(function: Callable[[], object], measure: str = "calls") -> float:
    """Returns the calls of a function, with those of threads that it starts, or its seconds."""
    count = itertools.count()

    def called(frame, event, argument) -> None:
        if event in ("call", "c_call"):
            next(count)

    # Passes of the garbage collector come when they come, over all that was imported as well.
    gc.disable()
    began = time.process_time()
    if measure == "calls":
        threading.setprofile(called)
        sys.setprofile(called)
    try:
        with contextlib.suppress(UserError, ApiError):
            function()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        seconds = time.process_time() - began
        gc.enable()
    return next(count) if measure == "calls" else seconds


def growth_of(
    name: str, function: Callable[[str], object], motif: str, characters: int, measure: str
) -> Growth:
    """Returns the growth of the work up to this number of characters."""
    texts = [motif * max(characters // part // len(motif), 1) for part in (4, 2, 1)]
    function_of = lambda text: lambda: function(text)  # noqa: E731
    if measure == "calls":
        with contextlib.suppress(UserError, ApiError):
            function(texts[0])  # Warms up caches.
    work = tuple(work_of(function_of(text), measure) for text in texts)
    first, second = work[1] - work[0], work[2] - work[0]
    # For work that grows as the n-th power, the ratio is 2^n + 1.
    least = 0.02 if measure == "seconds" else 500
    ratio = 1.0
    if second > least:
        ratio = second / first - 1 if first > least else work[2] / work[1]
    return Growth(name, motif, work, math.log2(max(ratio, 1.0)))


def is_known(growth: Growth) -> bool:
    """Returns whether a growth is at most the limit, or known to be higher."""
    names = (growth.function, growth.motif), (growth.function, "")
    return growth.exponent <= MOST or any(name in KNOWN for name in names)


FUNCTIONS = functions()
QUICK_ROUTES = ("route html", "route address", "route terms")
KNOWN_FUNCTIONS = {name for name, _ in KNOWN}
QUICK = [
    name
    for name in FUNCTIONS
    if name not in KNOWN_FUNCTIONS and (not name.startswith("route") or name in QUICK_ROUTES)
]


@pytest.mark.skipif(sys.gettrace() is not None, reason="a debugger counts as well")
@pytest.mark.parametrize("name", QUICK)
def test_work_grows_as_the_text_does(name):
    for motif in ("a b c. ", "<b>%s</b> "):
        growth = growth_of(name, FUNCTIONS[name], motif, 800, "calls")
        assert is_known(growth), growth


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_seconds_grow_as_a_long_text_does(name):
    for motif in MOTIFS:
        # Seconds vary; what grows too fast does so each time.
        growths = (growth_of(name, FUNCTIONS[name], motif, 100_000, "seconds") for _ in range(3))
        assert any(map(is_known, growths)), motif


def test_what_grows_faster_is_seen():
    def quadratic(text):
        return [text.count(character) for character in text for _ in text]

    assert growth_of("", quadratic, "a", 400, "calls").exponent > 1.9
