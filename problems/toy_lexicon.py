"""Dictionary entries of the toy translation problem: what a word is and which forms it has."""

import dataclasses

from t2t_keras.problems import toy_words


@dataclasses.dataclass(frozen=True)
class Noun:
    """A noun with its gender and the forms from which all others follow."""

    english: str
    english_plural: str  # "" for what is not counted (bread) and for names
    german: str
    german_plural: str
    german_genitive: str
    gender: str  # "m", "f" or "n"; what the article of the entry says
    classes: frozenset[str]

    @property
    def is_weak(self) -> bool:
        """Whether the n-declension applies: den Jungen, dem Jungen, des Jungen."""
        is_plural = self.german_genitive == self.german_plural != self.german
        return self.gender == "m" and is_plural and self.german_genitive.endswith("n")


@dataclasses.dataclass(frozen=True)
class Adjective:
    """An adjective; `stem` takes the endings (teuer, but teure)."""

    english: str
    german: str
    stem: str
    classes: frozenset[str]


@dataclasses.dataclass(frozen=True)
class Complement:
    """What a verb asks for: a case, perhaps behind a preposition, and the classes of the noun."""

    english_preposition: str
    german_preposition: str
    case: str
    classes: frozenset[str]


@dataclasses.dataclass(frozen=True)
class Modal:
    """A verb that sends the main verb to the end: can swim, kann ... schwimmen."""

    english: str
    english_third: str
    infinitive: str  # which is the plural, too
    third: str


@dataclasses.dataclass(frozen=True)
class Adverb:
    """A time: "yesterday", "every day". Some stand before the English verb."""

    english: str
    german: str
    times: frozenset[str]
    before_verb: bool


@dataclasses.dataclass(frozen=True)
class Verb:
    """A verb with its forms, the subjects it goes with, and the frames of its complements."""

    english: str
    english_third: str
    english_past: str
    english_particle: str  # up in "picks up"
    infinitive: str
    third: str  # finite form only: "holt" of "holt ab"
    prefix: str  # separable prefix: "ab"
    auxiliary: str  # of the perfect: "haben" or "sein"
    participle: str
    preterite: str  # where the simple past is the usual one (war, hatte, kannte), else ""
    reflexive: bool
    subjects: frozenset[str]
    frames: tuple[tuple[Complement, ...], ...]


def _entries(table: str) -> list[list[str]]:
    """Splits a table into the fields of its lines."""
    return [
        [field.strip() for field in line.split("|")] for line in table.splitlines() if line.strip()
    ]


def _forms(field: str) -> list[str]:
    return [form.strip() for form in field.split(",")]


def _noun(english: str, german: str, classes: str) -> Noun:
    singular, plural, *_ = *_forms(english), ""
    with_article, german_plural, genitive, *_ = *_forms(german), "", "", ""
    article, word = with_article.split()
    return Noun(
        english=singular,
        english_plural=plural,
        german=word,
        german_plural=german_plural.strip("-"),
        german_genitive=genitive or word,
        gender={"der": "m", "die": "f", "das": "n"}[article],
        classes=frozenset(classes.split()),
    )


def _adjective(english: str, german: str, classes: str) -> Adjective:
    word, stem, *_ = *_forms(german), ""
    return Adjective(english, word, stem or word, frozenset(classes.split()))


def _complement(text: str) -> Complement:
    """Reads "for: auf accusative person", of which both prepositions may be missing."""
    english_preposition, _, rest = text.rpartition(":")
    words = rest.split()
    german_preposition = "" if words[0] in ("accusative", "dative") else words.pop(0)
    case, *classes = words
    return Complement(english_preposition.strip(), german_preposition, case, frozenset(classes))


def _verb(english: str, german: str, subjects: str, complements: str) -> Verb:
    base, english_third, past = (form.split(" ", 1)[0] for form in _forms(english))
    particle = _forms(english)[0].partition(" ")[2]
    reflexive = german.startswith("sich ")
    infinitive, third, perfect, preterite, *_ = *_forms(german.replace("sich ", "")), ""
    third, prefix, *_ = *third.replace(" sich", "").split(), ""
    auxiliary, participle = perfect.split()
    frames = complements.split(" or ") if complements else []
    return Verb(
        english=base,
        english_third=english_third,
        english_past=past,
        english_particle=particle,
        infinitive=infinitive,
        third=third,
        prefix=prefix,
        auxiliary={"hat": "haben", "ist": "sein"}[auxiliary],
        participle=participle,
        preterite=preterite,
        reflexive=reflexive,
        subjects=frozenset(subjects.split()),
        frames=tuple(tuple(map(_complement, frame.split("+"))) for frame in frames) or ((),),
    )


def _modal(english: str, german: str) -> Modal:
    base, third, *_ = *_forms(english), _forms(english)[0]
    return Modal(base, third, *_forms(german))


def _adverb(english: str, german: str, times: str) -> Adverb:
    return Adverb(english, german, frozenset(times.split()) - {"~"}, "~" in times)


NOUNS = tuple(_noun(*entry) for entry in _entries(toy_words.NOUNS))
NAMES = tuple(_noun(*entry) for entry in _entries(toy_words.NAMES))
ADJECTIVES = tuple(_adjective(*entry) for entry in _entries(toy_words.ADJECTIVES))
VERBS = tuple(_verb(*entry) for entry in _entries(toy_words.VERBS))
GOVERNING_VERBS = {
    verb.infinitive: verb
    for verb in (_verb(*entry) for entry in _entries(toy_words.GOVERNING_VERBS))
}
MODALS = tuple(_modal(*entry) for entry in _entries(toy_words.MODALS))
TIMES = tuple(_adverb(*entry) for entry in _entries(toy_words.TIMES))
ADJUNCTS = tuple(
    _complement(f"{english}: {german} {classes}")
    for english, german, classes in _entries(toy_words.ADJUNCTS)
)
