"""The page's routes: translations with data about each word, and continuations of a prefix."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from starlette.responses import Response

from t2t_keras.decoding.confidence import confidences
from t2t_keras.decoding.lines import Line, encode_text
from t2t_keras.decoding.translation import Hypothesis, Translation
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.text.alignment import split_words, word_numbers
from t2t_keras.text.files import normalized
from t2t_keras.text.sentences import ends_sentence
from t2t_keras.workbench.server.endpoints import Call, Endpoint
from t2t_keras.workbench.server.libretranslate import required_code
from t2t_keras.workbench.server.requests import (
    ApiError,
    Budget,
    in_own_thread,
    json_response,
    run_while_connected,
)
from t2t_keras.workbench.server.service import (
    Passage,
    Work,
    hypothesis_texts,
    ranked_texts,
    read_passage,
)
from t2t_keras.workbench.terms.glossary import Glossary
from t2t_keras.workbench.terms.stage import with_terms

# Next symbols to consider; only those that begin a new word are tried.
_MAX_SYMBOLS = 100
# Symbols to try for each requested word, as several may begin the same word.
_SYMBOLS_PER_WORD = 2
Splitter = Callable[[str], list[str]] | None


class Continuation(NamedTuple):
    """A translation that begins with a prefix.

    Attributes:
      word: the first word after the prefix.
      text: the whole translation.
      translation: the translation with scores and notes.
    """

    word: str
    text: str
    translation: Translation


def continuations(translator: Translator, line: str, prefix: str, count: int) -> list[Continuation]:
    """Returns translations with a prefix and different next words, most likely first.

    Each is the best hypothesis after one of the most likely next symbols.

    Args:
      translator: a translator of any engine.
      line: the source text.
      prefix: whole words.
      count: maximum number of translations.

    Raises:
      UserError: see `Translator.translate`.
    """
    [source] = translator.prepare([line])
    if not source.parts:
        return []
    prefix = normalized(prefix)
    tokenizer, prefix_words = translator.tokenizer, split_words(prefix)
    num_words = len(prefix_words)
    [prefix_ids] = [ids[:-1].tolist() for ids in encode_text([prefix], tokenizer)]
    symbols = translator.engine.next_symbols(
        source.parts[0].ids, np.array(prefix_ids, np.int32), _MAX_SYMBOLS
    )
    candidates = [[*prefix_ids, int(symbol)] for symbol in symbols]
    candidates = [ids for ids in candidates if _begins_word(tokenizer.pieces(ids), num_words)]
    texts = list(dict.fromkeys(tokenizer.decode(candidates[: _SYMBOLS_PER_WORD * count])))
    by_word: dict[str, Continuation] = {}
    lines = [line] * len(texts)
    for translation in translator.translate(lines, texts) if texts else ():
        text = translation.postprocessed
        words = split_words(text)
        if words[:num_words] == prefix_words and len(words) > num_words:
            word = words[num_words]
            by_word.setdefault(word, Continuation(word, text, translation))
    return list(by_word.values())[:count]


def _begins_word(pieces: Sequence[str], num_words: int) -> bool:
    """Returns whether the last piece begins a new word after this number of words."""
    number = word_numbers(pieces)[-1]
    return number is None or number >= num_words


@dataclasses.dataclass(frozen=True)
class WordByWord(Work):
    """Translates lines, with the confidence and alignment of each word.

    Attributes:
      splitter: splits lines into sentences; None = lines stay whole.
    """

    splitter: Splitter = None

    def __call__(self, translator: Translator, lines: Sequence[str]) -> list[dict[str, Any]]:
        """Returns the page's data for each line, see docs/serving.md."""
        passages = [read_passage(line, splitter=self.splitter) for line in lines]
        sentences = [sentence for passage in passages for sentence in passage.sentences]
        translator = with_terms(translator, self.glossary)
        translations = translator.translate(sentences)
        analysed_sentences = iter(_analyse(translator, sentences, translations))
        return [
            _line_data(line, passage, [next(analysed_sentences) for _ in passage.sentences])
            for line, passage in zip(lines, passages, strict=True)
        ]


@dataclasses.dataclass(frozen=True)
class _Sentence:
    """A translated sentence, with the confidence and alignment of its words."""

    source: str
    translation: Translation
    alignment: list[tuple[int, int]]
    word_confidences: tuple[float, ...]
    confidence: float

    @property
    def words(self) -> list[str]:
        return split_words(hypothesis_texts(self.translation)[0])


def _analyse(
    translator: Translator, sentences: Sequence[str], translations: Sequence[Translation]
) -> list[_Sentence]:
    """Returns translated sentences with the confidence and alignment of their words."""
    alignments = translator.align(sentences, translations)
    text_confidences = confidences(translator, sentences, translations)
    rows = zip(sentences, translations, alignments, text_confidences, strict=True)
    return [
        _Sentence(source, translation, alignment, confidence.words, confidence.whole)
        for source, translation, alignment, confidence in rows
    ]


def _line_data(line: str, passage: Passage, sentences: Sequence[_Sentence]) -> dict[str, Any]:
    best, *alternatives = ranked_texts(passage, [sentence.translation for sentence in sentences])
    words: list[dict[str, Any]] = []
    alignment: list[list[int]] = []
    source_words: list[str] = []
    num_words = sum(len(sentence.words) for sentence in sentences)
    line_confidence = 1.0
    for sentence in sentences:
        # Words beyond the model's maximum length have no confidence.
        rounded = [round(confidence, 4) for confidence in sentence.word_confidences]
        alignment += [
            [len(source_words) + source, len(words) + target]
            for source, target in sentence.alignment
        ]
        words += [
            {"text": word, "confidence": rounded[number] if number < len(rounded) else None}
            for number, word in enumerate(sentence.words)
        ]
        source_words += split_words(sentence.source)
        line_confidence *= sentence.confidence ** (len(sentence.words) / max(num_words, 1))
    return {
        "source": line,
        "text": best,
        "source_words": source_words,
        "words": words,
        "alignment": alignment,
        "alternatives": alternatives,
        "confidence": round(line_confidence, 4),
    }


# Error code for a prefix that is longer than the model's maximum output.
PREFIX_TOO_LONG = "prefix_too_long"


@dataclasses.dataclass(frozen=True)
class OtherWords(Work):
    """Continues a prefix of a line's translation with different next words.

    Attributes:
      prefix: whole words.
      count: maximum number of continuations.
      splitter: splits the line into sentences; None = it stays whole.
      target_splitter: splits the prefix into sentences.
    """

    prefix: str
    count: int
    splitter: Splitter = None
    target_splitter: Splitter = None

    def __call__(self, translator: Translator, lines: Sequence[str]) -> list[list[dict[str, Any]]]:
        """Returns each line's translations with this prefix, most likely first.

        Each is {"word": next word, "text": whole translation}, with "words" and "alignment" as
        in `WordByWord`. Sentences that are complete in the prefix stay unchanged.
        """
        translator = with_terms(translator, self.glossary)
        return [self._continue_prefix(translator, line) for line in lines]

    def _continue_prefix(self, translator: Translator, line: str) -> list[dict[str, Any]]:
        passage = read_passage(line, splitter=self.splitter)
        if not passage.sentences:
            return []
        prefixes = read_passage(self.prefix, splitter=self.target_splitter).sentences
        number = min(sum(map(ends_sentence, prefixes)), len(passage.sentences) - 1)
        complete, current = prefixes[:number], " ".join(prefixes[number:])
        _check_prefix(translator, passage.sentences, [*complete, current])
        before, after = passage.sentences[:number], passage.sentences[number + 1 :]
        sentence = passage.sentences[number]
        translations_after = translator.translate(after)
        options = continuations(translator, sentence, current, self.count)
        translations_before = map(_as_translation, translator.prepare(before), complete)
        surrounding = [*translations_before, *translations_after]
        sources = [*before, *after, *[sentence] * len(options)]
        translations = [*surrounding, *(option.translation for option in options)]
        analysed = _analyse(translator, sources, translations)
        analysed_before, analysed_after = analysed[:number], analysed[number : len(surrounding)]
        analysed_options = analysed[len(surrounding) :]
        index = len(split_words(current))
        pairs = zip(options, analysed_options, strict=True)
        ranked = sorted(pairs, key=lambda pair: -_confidence(pair[1], index))
        keys = "text", "words", "alignment"
        answers = []
        for option, translated in ranked:
            data = _line_data(line, passage, [*analysed_before, translated, *analysed_after])
            answers.append({"word": option.word, **{key: data[key] for key in keys}})
        return answers


def _confidence(sentence: _Sentence, index: int) -> float:
    word_confidences = sentence.word_confidences
    return word_confidences[index] if index < len(word_confidences) else 0.0


def _check_prefix(translator: Translator, sources: Sequence[str], prefixes: Sequence[str]) -> None:
    """Raises `UserError` if a sentence of the prefix is longer than the model's maximum output."""
    config = translator.config
    source_length = max(map(len, encode_text(sources, translator.tokenizer.source)))
    limit = config.max_output_length(min(source_length, config.max_input_length))
    if (length := max(map(len, encode_text(prefixes, translator.tokenizer)))) > limit:
        raise UserError(
            f"The prefix has a sentence of {length:,} tokens: expected at most {limit:,}, the "
            f"model's limit for this text. Shorten it.",
            code=PREFIX_TOO_LONG,
        )


def _as_translation(source: Line, text: str) -> Translation:
    """Wraps a text in a `Translation` without searching; its first part gets the whole text."""
    parts = (text, *[""] * (len(source.parts) - 1))
    return Translation(text, 0.0, (Hypothesis(text, 0.0),), parts)


_MAX_ALTERNATIVES = 8
_MAX_LINES = 10_000
_MAX_TERMS, _MAX_TERM_CHARACTERS = 10_000, 500_000
_MAX_LINE_CHARACTERS = 10_000  # in q and in prefix of /page/alternatives
_MAX_CACHED = 32  # glossaries, for further requests from the same page


async def translate(call: Call) -> Response:
    """Translates lines; also returns data about each word."""
    parameters, context = call.parameters, call.context
    text = parameters.text("q")
    context.check_size([text])
    lines = text.split("\n")
    if len(lines) > _MAX_LINES:
        raise ApiError(413, f"Invalid request: expected at most {_MAX_LINES:,} lines")
    source, target = required_code(parameters, "source"), required_code(parameters, "target")
    pair = context.pair(source, target)
    budget = call.budget([text])
    glossary = await _read_glossary(call, budget)
    with call.charged([text], budget):
        work = WordByWord(context.service.splitter(pair[0]), glossary=glossary)
        translating = context.service.run(pair, lines, work, budget)
        translations = await run_while_connected(call.request, translating, budget)
    context.log_texts(lines, [translation["text"] for translation in translations])
    return await json_response({"lines": translations})


async def alternatives(call: Call) -> Response:
    """Returns translations of a line that continue a prefix with different next words."""
    parameters, context = call.parameters, call.context
    line, prefix = parameters.text("q"), parameters.text("prefix")
    context.check_size([line, prefix])
    for name, text in (("q", line), ("prefix", prefix)):
        if len(text) > _MAX_LINE_CHARACTERS:
            message = f"{name} has more than {_MAX_LINE_CHARACTERS:,} characters"
            raise ApiError(400, f"Invalid request: {message}")
    source, target = required_code(parameters, "source"), required_code(parameters, "target")
    pair = context.pair(source, target)
    splitters = map(context.service.splitter, pair)
    budget = call.budget([line, prefix])
    glossary = await _read_glossary(call, budget)
    with call.charged([line, prefix], budget):
        work = OtherWords(prefix, _MAX_ALTERNATIVES, *splitters, glossary=glossary)
        translating = context.service.run(pair, [line], work, budget)
        try:
            [continuations] = await run_while_connected(call.request, translating, budget)
        except UserError as error:
            if error.code != PREFIX_TOO_LONG:
                raise
            raise ApiError(400, f"Invalid request: {error}") from error
    return await json_response({"alternatives": continuations})


async def _read_glossary(call: Call, budget: Budget) -> Glossary | None:
    terms: Any = call.parameters.raw_value("glossary") or []
    if not isinstance(terms, list) or not all(
        isinstance(term, list) and len(term) == 2 and all(isinstance(side, str) for side in term)
        for term in terms
    ):
        raise ApiError(400, "Invalid request: expected glossary as a list of [source, target]")
    if len(terms) > _MAX_TERMS:
        raise ApiError(413, f"Invalid request: expected at most {_MAX_TERMS:,} terms")
    if not terms:
        return None
    if sum(len(side) for term in terms for side in term) > _MAX_TERM_CHARACTERS:
        message = f"expected at most {_MAX_TERM_CHARACTERS:,} characters of terms"
        raise ApiError(413, f"Invalid request: {message}")
    async with call.context.places.place(call.share_owner):
        with budget.working():
            return await in_own_thread(_compile, tuple(map(tuple, terms)))


@functools.lru_cache(maxsize=_MAX_CACHED)
def _compile(pairs: tuple[tuple[str, str], ...]) -> Glossary:
    try:
        return Glossary.of(pairs)
    except UserError as error:
        raise ApiError(400, f"Invalid request: {error}") from error


ROUTES = (
    Endpoint("/page/translate", translate),
    Endpoint("/page/alternatives", alternatives),
)
