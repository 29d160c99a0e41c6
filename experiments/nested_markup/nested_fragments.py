"""Places the tags of generated HTML, of which the grammar knows where they belong.

    python experiments/nested_markup/nested_fragments.py --output_dir=runs/demo/averaged
        --fragments=1000

The model is one of `translate_ende_toy`, as examples/demo.sh trains it. Elements are put around
noun phrases, times, and the adjectives and nouns in them, in both languages at once. Where the
model translates the sentence as the grammar does, the place of every element is known.
"""

import argparse
import collections
import contextlib
import functools
import html.parser
import random
import re
from unittest import mock

from t2t_keras.decoding.translator import Translator
from t2t_keras.problems.toy import clauses
from t2t_keras.problems.toy.grammar import Grammar
from t2t_keras.workbench.markup.translator import translate_markup

_SLOTS = ("front", "time", "object", "indirect", "complement", "pronoun", "adjunct", "place")
_TAGS = ("b", "i", "em", "a", "span", "u", "strong")
# Marks of an element in both sentences: its number between two signs of Unicode's private use.
_BEGIN, _MIDDLE, _END = "\ue000", "\ue001", "\ue002"
_MARK = re.compile(f"{_BEGIN}(\\d+){_MIDDLE}|{_END}(\\d+){_MIDDLE}")


class _Marks:
    """Puts the same marks around what is the same in both languages."""

    def __init__(self):
        self.number = 0

    def around(self, *texts: str) -> tuple[str, ...]:
        if not all(texts):
            return texts
        self.number += 1
        begin, end = (f"{sign}{self.number}{_MIDDLE}" for sign in (_BEGIN, _END))
        return tuple(f"{begin}{text}{end}" for text in texts)


@contextlib.contextmanager
def _marked(marks: _Marks):
    """While it lasts, the grammar's phrases have marks."""
    fill, phrase, init = clauses.Clause.fill, clauses.noun_phrase, clauses.Clause.__init__

    def marked_fill(clause, slot, pair):
        fill(clause, slot, marks.around(*pair) if slot in _SLOTS else pair)

    def marked_init(clause, subject, *args, **options):
        init(clause, subject, *args, **options)
        sides = clause.english["subject"], clause.german["subject"]
        if "relative" not in subject.classes and subject.gender is not None:
            clause.english["subject"], clause.german["subject"] = marks.around(*sides)

    def marked_phrase(noun, determiner="bare", adjective=None, plural=False):
        found = phrase(noun, determiner, adjective, plural)
        english, german = found.english.split(), dict(found.german)
        for place in (-1, *((-2,) if adjective else ())):
            same = all(len(each.split()) == len(english) for each in german.values())
            if not same or len(english) < 2:
                break
            marks.number += 1
            begin, end = (f"{sign}{marks.number}{_MIDDLE}" for sign in (_BEGIN, _END))
            english[place] = f"{begin}{english[place]}{end}"
            for case, text in german.items():
                words = text.split()
                words[place] = f"{begin}{words[place]}{end}"
                german[case] = " ".join(words)
        text = " ".join(english)
        return type(found)(text, text, german, found.agrees, found.classes, found.gender)

    with (
        mock.patch.object(clauses.Clause, "fill", marked_fill),
        mock.patch.object(clauses.Clause, "__init__", marked_init),
        mock.patch.object(clauses, "noun_phrase", marked_phrase),
    ):
        yield


def fragments(count: int, seed: int):
    """Yields sources and references as HTML."""
    grammar, marks, draw = Grammar(seed), _Marks(), random.Random(seed)
    with _marked(marks):
        while count:
            pair = [_capital(side) for side in grammar.sentence()]
            shared = set.intersection(
                *({int(a or b) for a, b in _MARK.findall(side)} for side in pair)
            )
            numbers = draw.sample(sorted(shared), min(len(shared), draw.randint(1, 4)))
            if not numbers:
                continue
            names = {
                number: (draw.choice(_TAGS), f' id="{number}" title="a > b &amp; c"')
                for number in numbers
            }
            yield tuple(_MARK.sub(functools.partial(_tag, names), side) for side in pair)
            count -= 1


def _capital(text: str) -> str:
    begin = re.match(f"(?:{_MARK.pattern})*", text)[0]
    return begin + text[len(begin) :][:1].upper() + text[len(begin) + 1 :]


def _tag(names: dict, found: re.Match) -> str:
    opens = found[1] is not None
    if int(found[1] or found[2]) not in names:
        return ""
    name, attributes = names[int(found[1] or found[2])]
    return f"<{name}{attributes}>" if opens else f"</{name}>"


class _Places(html.parser.HTMLParser):
    """Finds the text before and in each element, by its id; and whether all are nested."""

    def __init__(self, text: str):
        super().__init__()
        self.text, self.places, self.tags = "", {}, collections.Counter()
        self._open, self.nested = [], True
        self.feed(text)
        self.close()
        self.nested = self.nested and not self._open

    def handle_starttag(self, tag, attrs):
        self._open.append((tag, dict(attrs)["id"], len(self.text)))
        self.tags[self.get_starttag_text()] += 1

    def handle_endtag(self, tag):
        name, number, start = self._open.pop() if self._open else ("", "", 0)
        self.nested = self.nested and name == tag
        inside = self.text[start:]
        self.places[number] = (len(self.text[:start].split()), inside.strip(" ,"))
        self.tags[f"/{tag}"] += 1

    def handle_data(self, data):
        self.text += data


def main() -> None:
    """Prints how many tags are where they belong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--fragments", type=int, default=1000)
    parser.add_argument("--engine", default="keras")
    parser.add_argument("--shown", type=int, default=5)
    flags = parser.parse_args()
    sources, references = zip(*fragments(flags.fragments, seed=3), strict=True)
    translator = Translator.from_run(flags.output_dir, engine=flags.engine)
    outputs = [each.text for each in translate_markup(translator, sources, "html")]
    well_formed = same_tags = comparable = elements = right = 0
    for source, reference, output in zip(sources, references, outputs, strict=True):
        found, expected, given = map(_Places, (output, reference, source))
        well_formed += found.nested
        same_tags += found.tags == given.tags
        if found.text.split() != expected.text.split():
            continue
        comparable += 1
        elements += len(expected.places)
        correct = sum(found.places.get(key) == place for key, place in expected.places.items())
        right += correct
        if correct < len(expected.places) and flags.shown:
            flags.shown -= 1
            print(f"  {source}\n  {output}\n  {reference}\n")
    total = len(sources)
    print(f"{total:,} fragments: {well_formed:,} well nested, {same_tags:,} with the same tags")
    print(f"{comparable:,} translated as by the grammar: of {elements:,} elements {right:,} are in")
    print(f"their places: {right / max(elements, 1):.2%}")


if __name__ == "__main__":
    main()
