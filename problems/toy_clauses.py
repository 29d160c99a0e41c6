"""Clauses of the toy translation problem: one meaning, two word orders.

A clause is a set of slots, filled in both languages at once; a `WordOrder` reads the slots out,
in one order for English and in another for German. That is the whole of the difference between
a main clause and a subordinate one: German puts its finite verb second, first or last, and what
belongs to it (prefix, participle, infinitive) at the end.
"""

import dataclasses
from collections.abc import Iterable

from t2t_keras.problems import toy_inflection as inflection
from t2t_keras.problems.toy_inflection import NounPhrase
from t2t_keras.problems.toy_lexicon import Adverb, Complement, Modal, Verb


@dataclasses.dataclass(frozen=True)
class Pair:
    """A phrase and its translation."""

    english: str
    german: str

    def __add__(self, other: "Pair") -> "Pair":
        return Pair(f"{self.english} {other.english}", f"{self.german} {other.german}")


@dataclasses.dataclass(frozen=True)
class WordOrder:
    """One rule of the synchronous grammar: the slots of a clause, in the order of each language."""

    english: str
    german: str


class Clause:
    """The slots of one clause.

    English has subject, auxiliary, frequency, verb, particle, base; German has finite
    and end, the two brackets, and reflexive, gern, infinitive. Both have subject, not, pronoun
    (an object that is one), indirect, object, complement, adjunct, time, front, relative.
    """

    def __init__(self, subject: NounPhrase, verb: Verb, past: bool, modal: Modal | None):
        self.subject = subject
        self.verb = verb
        self.past = past
        self.modal = modal
        self.english = {"subject": subject.english}
        self.german = {"subject": subject.german["nominative"]}

    def fill(self, slot: str, pair: Pair) -> None:
        """Puts a phrase into the slot of that name in both languages."""
        self.english[slot], self.german[slot] = pair.english, pair.german

    def words(self, order: WordOrder) -> Pair:
        """Reads the clause out; slots that nothing fills are skipped."""
        return Pair(_read(self.english, order.english), _read(self.german, order.german))


def _read(slots: dict[str, str], order: str) -> str:
    return " ".join(slots[slot] for slot in order.split() if slots.get(slot))


_ENGLISH_REST = (
    "not frequency verb pronoun particle indirect object complement adjunct time relative"
)
_GERMAN_MIDDLE = "pronoun indirect time gern object not adjunct complement"

# The man sees the dog today. / Der Mann sieht heute den Hund.
STATEMENT = WordOrder(
    f"subject auxiliary {_ENGLISH_REST}", f"subject finite reflexive {_GERMAN_MIDDLE} end relative"
)
# Today the man sees the dog. / Heute sieht der Mann den Hund.
FRONTED = WordOrder(
    f"front subject auxiliary {_ENGLISH_REST}",
    f"front finite early_reflexive subject late_reflexive {_GERMAN_MIDDLE} end relative",
)
# Does the man see the dog? What does the man see? / Sieht der Mann den Hund? Was sieht der Mann?
QUESTION = WordOrder(
    f"front auxiliary subject {_ENGLISH_REST}",
    f"front finite early_reflexive subject late_reflexive {_GERMAN_MIDDLE} end relative",
)
# ... because the man sees the dog. / ..., weil der Mann den Hund sieht.
SUBORDINATE = WordOrder(
    f"subject auxiliary {_ENGLISH_REST}",
    f"subject reflexive {_GERMAN_MIDDLE} verbs_at_end relative",
)
# ... the dog that the man sees. / ... der Hund, den der Mann sieht.
RELATIVE_TO_OBJECT = WordOrder(
    f"front subject auxiliary {_ENGLISH_REST}", f"front subject {_GERMAN_MIDDLE} verbs_at_end"
)
# ... to see the dog. / ..., um den Hund zu sehen.
INFINITIVE = WordOrder(
    "base pronoun particle indirect object complement adjunct",
    "reflexive pronoun indirect object adjunct complement infinitive",
)


def verb_clause(
    subject: NounPhrase,
    verb: Verb,
    past: bool = False,
    modal: Modal | None = None,
    likes_to: bool = False,
    negative: bool = False,
    question: bool = False,
) -> Clause:
    """Makes a clause with its subject and its verb; complements are to be filled in.

    Args:
      subject: of the clause; the verb agrees with it.
      verb: the main verb.
      past: English past, German perfect or preterite.
      modal: a modal verb, in the present.
      likes_to: English "likes to read" is German `liest gern`.
      negative: English needs "do"; German `nicht` fills the slot "not", which a complement with
        `kein` empties again.
      question: English needs "do".
    """
    clause = Clause(subject, verb, past, modal)
    english_modal = _LIKE_TO if likes_to else modal
    auxiliary, english = inflection.english_verbs(
        verb, subject, past, english_modal, support=negative or question
    )
    finite, end = inflection.german_verbs(verb, subject, past, modal)
    reflexive = subject.reflexive if verb.reflexive else ""
    clause.english |= {
        "auxiliary": auxiliary,
        "verb": english,
        "particle": verb.english_particle,
        "base": verb.english,
    }
    clause.german |= {
        "finite": finite,
        "end": end,
        # aufmacht, but gesehen hat
        "verbs_at_end": end + finite if end and end == verb.prefix else f"{end} {finite}".strip(),
        "reflexive": reflexive,
        # Behind a fronted word: erinnert er sich, but erinnert sich der Mann.
        "early_reflexive": reflexive if subject.noun else "",
        "late_reflexive": "" if subject.noun else reflexive,
        "infinitive": inflection.zu_infinitive(verb),
        "gern": "gern" if likes_to else "",
    }
    if negative:
        clause.fill("not", Pair("not", "nicht"))
    return clause


_LIKE_TO = Modal("like to", "likes to", "", "")


def with_preposition(complement: Complement, phrase: NounPhrase) -> Pair:
    """Puts a noun phrase into the case of a complement, behind its prepositions."""
    english = f"{complement.english_preposition} {phrase.english_object}".strip()
    german = phrase.german[complement.case]
    if complement.german_preposition:
        german = inflection.prepositional(complement.german_preposition, german)
    return Pair(english, german)


def fill_complement(
    clause: Clause, complement: Complement, phrase: NounPhrase, has_two: bool
) -> None:
    """Puts a complement into the slot that its form asks for."""
    slot = "object"
    if complement.german_preposition:
        slot = "complement"
    elif has_two and complement.case == "dative":
        slot = "indirect"
    pair = with_preposition(complement, phrase)
    if phrase.noun is None and slot != "complement":
        slot = "pronoun"
    clause.fill(slot, pair)
    if clause.german.get("not") and phrase.german["nominative"].startswith("kein"):
        clause.german["not"] = ""


def fill_time(clause: Clause, adverb: Adverb, front: bool) -> None:
    """Says when or how often: in front, before the English verb, or at the English end."""
    if front:
        clause.fill("front", Pair(adverb.english, adverb.german))
    else:
        clause.english["frequency" if adverb.before_verb else "time"] = adverb.english
        clause.german["time"] = adverb.german


def relative_pronoun(head: NounPhrase, complement: Complement | None = None) -> Pair:
    """Returns the pronoun of a relative clause: gender and number of the head, case of its role.

    Args:
      head: what the clause is about.
      complement: the role of the head in the clause; the subject where this is None.
    """
    case = complement.case if complement else "nominative"
    is_person = "person" in head.classes
    english = ("whom" if complement else "who") if is_person else "that"
    return Pair(english, inflection.RELATIVE_PRONOUN[case, head.gender])


def punctuated(pair: Pair, mark: str) -> tuple[str, str]:
    """Makes sentences: commas without a space before them, a capital, the closing mark."""
    return _punctuated(pair.english.split(), mark), _punctuated(pair.german.split(), mark)


def _punctuated(words: Iterable[str], mark: str) -> str:
    text = " ".join(words).replace("can not ", "cannot ")
    text = text.replace(" ,", ",").replace(",,", ",").removesuffix(",")
    return text[0].upper() + text[1:] + mark
