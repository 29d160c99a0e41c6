"""Whether the tags of a program's message are markup, or what the message is about."""

import re

from t2t_keras.workbench.documents.document import markup_of
from t2t_keras.workbench.markup.matching import match_html
from t2t_keras.workbench.markup.tokens import CLOSE, EMPTY, OPEN, Token, html_tokens

_TAGS = {OPEN, CLOSE, EMPTY}
# The elements without content that also stand without attributes.
_BARE = {"br", "hr", "wbr"}
# Those that HTML lets end without a tag, and what stands before them: no word and a space.
_LEFT_OPEN = {"p", "li", "dt", "dd"}
_BEFORE_BLOCK = re.compile(r"(?:^|\w|[.!?:;)>\u2026]\s*)$")


def markup_of_message(text: str) -> str:
    """Returns the format of a message: "html" where all its tags match, else "text".

    In "Use `<style>` for the output" and "Open `<file>`" a tag is a word of the sentence. As HTML
    the first has no text after the tag, and the second lacks a word.
    """
    if markup_of(text) == "text":
        return "text"
    tokens = list(html_tokens(text))
    partners, ends = match_html(tokens)
    # A script or a title that is not closed has all that follows as its content.
    swallowing = {token.name for token in tokens if token.kind not in _TAGS}
    empty = {token.name for token in tokens if token.kind == EMPTY}
    found = [
        partner is not None
        or end is not None  # HTML ends it there.
        or (token.kind == CLOSE and token.name in empty)
        or (token.name in _LEFT_OPEN and _begins_block(before, token))
        or (_is_empty(token) and token.name not in swallowing)
        for before, token, partner, end in zip(
            [None, *tokens], tokens, partners, ends, strict=False
        )
        if token.kind in _TAGS
    ]
    return "html" if found and all(found) else "text"


def _begins_block(before: Token | None, token: Token) -> bool:
    return token.kind == OPEN and bool(_BEFORE_BLOCK.search(before.raw[-20:] if before else ""))


def _is_empty(token: Token) -> bool:
    """Returns whether a tag is of an element without content."""
    if token.kind == EMPTY:
        return token.name in _BARE or "=" in token.raw or token.raw.endswith("/>")
    return token.kind == OPEN and token.raw.endswith("/>")
