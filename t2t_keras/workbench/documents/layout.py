"""Divides text into sentences, and lays out their translations like the source."""

import bisect
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from t2t_keras.text.sentences import ends_sentence, join_sentences, sentence_splitter
from t2t_keras.workbench.documents.document import SpanDocument, Unit, decode_file
from t2t_keras.workbench.markup.tokens import read_characters, write_characters

# From the first visible character of a paragraph to the end of its last line.
_PARAGRAPH = re.compile(r"\S[^\r\n]*(?:(?:\r\n|\r|\n)[^\S\r\n]*\S[^\r\n]*)*")
# Matches only at the start of white space: trying each place would take quadratic time.
_BREAK = re.compile(r"(?<![^\S\r\n])[^\S\r\n]*+(?:\r\n|\r|\n)\s*")
_LINE_END = re.compile(r"(?<![ \t])[ \t]*+\r?\n[ \t\r\n]*")
_WIDE_SPACE = re.compile(r"(?<=\S)(?:[ \t\f]{2,}+|[\t\f])(?=\S)")
_SPACES = re.compile(r"[ \t\r\n\f]+")
# Shorter lines never continue in the next line.
_MIN_WRAPPED_LENGTH = 40
# Tags around HTML or XML that keeps its white space.
_KEPT_LINES_TAGS = '<pre class="t2t-lines" xml:space="preserve">', "</pre>"
# Tags, in which line ends stay; elements in which line ends differ from other white space.
_TAG = re.compile(r"<!--.*?(?:-->|$)|<[^<>]*>", re.DOTALL)
_PREFORMATTED = re.compile(r"<(?:pre|code|kbd|samp|tt|script|style|textarea|xmp)\b", re.IGNORECASE)
# Ends of lines that do not continue in the next line.
_LINE_FINAL = re.compile(r"[:;♪][^\w\s]*$")


def read_plain_text(path: Path, languages: tuple[str, str], content: bytes) -> SpanDocument:
    """Returns a document with a unit for each paragraph."""
    document = SpanDocument(path, languages, decode_file(path, content))
    for match in _PARAGRAPH.finditer(document.file.text):
        paragraph = match[0].rstrip()
        document.add(match.start(), match.start() + len(paragraph), Unit(paragraph))
    return document


class SentenceGroup(NamedTuple):
    """Sentences in one or more lines, with the white space between them and the line breaks."""

    sentences: list[str]
    gaps: list[str]  # white space after each sentence
    breaks: list[str]  # white space from the end of each line to the text of the next
    lengths: list[int]  # length of each line

    @property
    def line(self) -> str:
        """All sentences in one line."""
        return "".join(
            sentence + gap for sentence, gap in zip(self.sentences, self.gaps, strict=True)
        )


def sentence_groups(
    text: str, language: str = "", is_plain: bool = True, keeps_lines: bool = False
) -> list[str | SentenceGroup]:
    """Returns groups of sentences, and the white space before, between and after them.

    A group is a line, or several lines with wrapped sentences. Markup (not `is_plain`) is one
    group; with `keeps_lines`, its line ends stay, except in wrapped sentences.
    """
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    if end <= start:
        return [text]
    if not is_plain:
        core = text[start:end]
        if keeps_lines and re.search(r"[\n\r\t]", core):
            core = _with_kept_lines(core)
        return [text[:start], SentenceGroup([core], [""], [], []), text[end:]]
    parts: list[str | SentenceGroup] = [text[:start]]
    lines, breaks = _BREAK.split(text[start:end]), _BREAK.findall(text[start:end])
    group_lines, group_breaks = [lines[0]], []
    for line, line_break in zip(lines[1:], breaks, strict=True):
        if _is_wrapped(group_lines[-1], line, line_break):
            group_breaks.append(line_break)
            group_lines.append(line)
        else:
            parts += [_sentence_group(group_lines, group_breaks, language), line_break]
            group_lines, group_breaks = [line], []
    return [*parts, _sentence_group(group_lines, group_breaks, language), text[end:]]


def _with_kept_lines(markup: str) -> str:
    lines, breaks = _BREAK.split(markup), _BREAK.findall(markup)
    tag_spans = [tag.span() for tag in _TAG.finditer(markup) if "\n" in tag[0] or "\r" in tag[0]]
    keeps_all = bool(_PREFORMATTED.search(markup))
    parts, position = [lines[0]], len(lines[0])
    for previous_line, line, line_break in zip(lines, lines[1:], breaks, strict=False):
        number = bisect.bisect(tag_spans, (position,)) - 1
        is_in_tag = number >= 0 and position < tag_spans[number][1]
        is_wrapped = not (keeps_all or is_in_tag) and _is_wrapped(previous_line, line, line_break)
        parts += [" " if is_wrapped else line_break, line]
        position += len(line_break) + len(line)
    return _KEPT_LINES_TAGS[0] + "".join(parts) + _KEPT_LINES_TAGS[1]


def ends_line(text: str) -> bool:
    """Returns whether a line is complete: it ends with a stop, colon, semicolon or music note."""
    return ends_sentence(text) or bool(_LINE_FINAL.search(text[-10:]))


def with_translations(parts: Sequence[str | SentenceGroup], translations: Mapping[str, str]) -> str:
    """Joins the parts; replaces lines or sentences by their translations, if known."""
    return "".join(
        part if isinstance(part, str) else _translate_group(part, translations) for part in parts
    )


def _translate_group(group: SentenceGroup, translations: Mapping[str, str]) -> str:
    text = translations.get(group.line)
    if text is None:
        *gaps, end = group.gaps
        sentences = [translations.get(sentence, sentence) for sentence in group.sentences]
        text = join_sentences(sentences, gaps) + end
    if group.line.startswith(_KEPT_LINES_TAGS[0]):
        before, _, after = text.removeprefix(_KEPT_LINES_TAGS[0]).rpartition(_KEPT_LINES_TAGS[1])
        text = before + after
    return wrap(text, group.breaks, group.lengths)


def _is_wrapped(line: str, next_line: str, line_break: str) -> bool:
    """Returns whether a sentence continues from a line to the following one."""
    return (
        len(line) >= _MIN_WRAPPED_LENGTH
        and line_break.count("\n") + line_break.replace("\r\n", "").count("\r") == 1
        and not ends_line(line)
        and next_line[0].islower()
    )


def _sentence_group(lines: Sequence[str], breaks: Sequence[str], language: str) -> SentenceGroup:
    raw_sentences = sentence_splitter(language)(" ".join(lines))
    sentences = [sentence.rstrip() for sentence in raw_sentences]
    gaps = [raw[len(text) :] for raw, text in zip(raw_sentences, sentences, strict=True)]
    return SentenceGroup(sentences, gaps, list(breaks), list(map(len, lines)))


def has_wide_space(text: str) -> bool:
    """Returns whether a text contains white space inside lines that `unwrap` would lose."""
    return bool(_WIDE_SPACE.search(text))


def unwrap(text: str) -> tuple[str, Callable[[str], str]]:
    """Joins the lines of a text; line ends count as spaces.

    Returns:
      The line, and a function that lays out its translation in the same number of lines.
    """
    lines = _LINE_END.split(text)
    breaks = _LINE_END.findall(text)
    lengths = list(map(len, lines))
    spaces = _SPACES.findall(text)

    def lay_out(translation: str) -> str:
        words = translation.split(" ")
        if len(words) == len(spaces) + 1:
            # The translation has as many words as the source: use the source's white space.
            return "".join(map("".join, zip(words, [*spaces, ""], strict=True)))
        return wrap(translation, breaks, lengths)

    return _SPACES.sub(" ", " ".join(lines)), lay_out


def unwrap_markup(raw: str) -> tuple[str, Callable[[str], str]]:
    """Like `unwrap`, for HTML or XML without tags, and without entities other than XML's.

    Characters of the translation are spelled as in the source.
    """
    line, lay_out = unwrap(raw)
    spellings: dict[str, str] = {}
    read_characters(raw, True, spellings)
    return line, lambda text: lay_out(write_characters(text, spellings))


def wrap(text: str, breaks: Sequence[str], lengths: Sequence[int]) -> str:
    """Divides a text into lines in proportion to `lengths`, and joins them by `breaks`.

    With too few words, there are fewer lines.
    """
    if not breaks:
        return text
    # Lengths include the space that a break replaces.
    lines = [line for line in divide_by_lengths(text, [length + 1 for length in lengths]) if line]
    pairs = zip(lines, [*breaks[: len(lines) - 1], ""], strict=True)
    return "".join(line + line_break for line, line_break in pairs)


def divide_by_lengths(text: str, lengths: Sequence[float]) -> list[str]:
    """Divides a text into parts in proportion to `lengths`; never inside a word.

    With too few words, the last parts are empty.
    """
    parts, position, number = [""], 0, 1
    sums = list(itertools.accumulate(lengths))
    scale = len(text) / sums[-1]
    for word in text.split(" "):
        # A word whose middle is past the end of a part's share begins the next part.
        is_full = position + len(word) / 2 >= scale * sums[number - 1]
        if is_full and number < len(lengths) and parts[-1]:
            parts.append(word)
            number += 1
        else:
            parts[-1] += f" {word}" if position else word
        position += len(word) + 1
    return parts + [""] * (len(lengths) - len(parts))
