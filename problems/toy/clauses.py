"""Noun phrases and clauses in both languages.

A clause is a set of slots, filled in both languages at once, and read out in each language's order.
"""

import dataclasses

from t2t_keras.problems.toy import words
from t2t_keras.problems.toy.words import TABLES, Complement, Entry, agree

Pair = tuple[str, str]  # English and German.

_ORDERS = {order.name: order.slots.split() for order in TABLES["orders"]}
_SHORT_FORMS = {"in dem": "im", "in das": "ins", "zu dem": "zum", "zu der": "zur", "von dem": "vom"}


@dataclasses.dataclass(frozen=True)
class Phrase:
    """A noun phrase in both languages, with its properties for agreement."""

    english: str  # form of a subject
    object: str  # English form of an object
    german: dict[str, str]  # by case
    agrees: str  # form of the verb that agrees with it: "first", "third" or "plural"
    classes: frozenset[str]  # such as "person"; verbs select their nouns by classes
    gender: str = ""  # gender of its relative pronouns, or "plural"; "" = a pronoun


PRONOUNS = {
    word.english: Phrase(word.english, word.object, word._asdict(), word.agrees, word.classes)
    for word in TABLES["pronouns"]
}


def noun_phrase(
    noun: Entry, determiner: str = "bare", adjective: Entry | None = None, plural: bool = False
) -> Phrase:
    """Builds a noun phrase in every case; `determiner` is a name in the table of determiners."""
    entry, gender = words.DETERMINERS[determiner], "plural" if plural else noun.gender
    # Uncountable nouns take the determiner of plurals, such as "any".
    article = entry.english if noun.plural and not plural else entry.plural
    english = spaced(adjective and adjective.english, noun.plural if plural else noun.english)
    if article == "a" and english[0] in "aeiou":
        article = "an"
    english = spaced(article, english)
    german = {
        case: spaced(
            words.determiner_form(entry, case, gender),
            adjective and words.adjective_form(adjective, entry, case, gender),
            words.noun_form(noun, case, plural),
        )
        for case in words.CASES
    }
    return Phrase(english, english, german, "plural" if plural else "third", noun.classes, gender)


def relative_pronoun(head: Phrase) -> Phrase:
    """Returns the pronoun of a relative clause, which has the gender and number of its head."""
    german = {case: words.RELATIVE_PRONOUN[case, head.gender] for case in words.CASES}
    english = ("who", "whom") if "person" in head.classes else ("that", "that")
    return Phrase(*english, german, head.agrees, head.classes)


class Clause:
    """The slots of a clause: subject, verb, complements and adverbials.

    The German past is the perfect or, if the verb has one, the preterite. English negations and
    questions need "do". A German negation is `nicht`, unless an object has `kein`.
    """

    def __init__(
        self,
        subject: Phrase,
        verb: Entry,
        past: bool = False,
        modal: Entry | None = None,
        negative: bool = False,
        question: bool = False,
    ):
        self.subject, self.verb = subject, verb
        self.past, self.modal, self.negative = past, modal, negative
        self.object: Phrase | None = None  # None unless it is the last complement.
        auxiliary, english = _english_verbs(verb, past, modal, subject, negative or question)
        finite, end = _german_verbs(verb, past, modal, subject)
        stem = verb.german.removeprefix(verb.prefix)
        self.english = {
            "subject": subject.english,
            "auxiliary": auxiliary,
            "verb": english,
            "particle": verb.particle,
            "base": verb.english.split("/")[0],
        }
        self.german = {
            "subject": subject.german["nominative"],
            "finite": finite,
            "end": end,
            # aufmacht, but gesehen hat
            "last": f"{end}{finite}" if end == verb.prefix else f"{end} {finite}",
            "zu": f"{verb.prefix}zu{stem}" if verb.prefix else f"zu {stem}",
            "gern": "gern" if modal and not modal.german else "",
        }
        if negative:
            self.fill("not", ("not", "nicht"))

    def fill(self, slot: str, pair: Pair) -> None:
        """Puts a phrase into the slot of that name in both languages."""
        self.english[slot], self.german[slot] = pair

    def add(self, complement: Complement, phrase: Phrase, slot: str = "complement") -> None:
        """Fills the slot of a complement with a noun phrase in the complement's case."""
        german = phrase.german[complement.case]
        if complement.german_preposition:
            article, _, remainder = german.partition(" ")
            full_form = f"{complement.german_preposition} {article}"
            german = spaced(_SHORT_FORMS.get(full_form, full_form), remainder)
        elif not phrase.gender:
            slot = "pronoun"
        else:
            has_two = len(self.verb.complements) == 2
            slot = "indirect" if has_two and complement.case == "dative" else "object"
        self.object = phrase if slot == "object" else None
        if german.startswith("kein"):
            self.german["not"] = ""
        self.fill(slot, (spaced(complement.preposition, phrase.object), german))

    def read(self, english: str, german: str) -> Pair:
        """Reads the clause out; `english` and `german` name word orders in the table of orders."""
        return (
            spaced(*map(self.english.get, _ORDERS[english])),
            spaced(*map(self.german.get, _ORDERS[german])),
        )


def _english_verbs(
    verb: Entry, past: bool, modal: Entry | None, subject: Phrase, needs_do: bool
) -> Pair:
    """Returns the auxiliary, which may be "", and the verb."""
    forms, base = verb.past if past else verb.english, verb.english.split("/")[0]
    if verb.german == "sein":
        return agree(forms, subject.agrees), ""
    if modal and "/" not in modal.english:
        return modal.english, base
    if modal:  # "want to see/wants to see"
        forms = "/".join(f"{form} {base}" for form in modal.english.split("/"))
    if not needs_do:
        return "", agree(forms, subject.agrees)
    return ("did", base) if past else (agree("do/does", subject.agrees), agree(forms, "first"))


def _german_verbs(verb: Entry, past: bool, modal: Entry | None, subject: Phrase) -> tuple[str, str]:
    """Returns the finite verb and the verb part at the end of the clause."""
    if modal and modal.german:
        return agree(modal.german, subject.agrees), verb.german
    if past and not verb.preterite:
        return agree(verb.auxiliary, subject.agrees), verb.participle
    return agree(verb.preterite if past else verb.present, subject.agrees), verb.prefix


def spaced(*parts: str | None) -> str:
    """Joins the parts that are not empty."""
    return " ".join(filter(None, parts))
