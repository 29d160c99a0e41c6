"""Inflection for the toy translation problem: who agrees with whom, and with which ending.

German tables are those of a school grammar; a hyphen is an empty ending. English needs little:
plurals and third persons stand in the lexicon, and "a" becomes "an" before a vowel.
"""

import dataclasses

from t2t_keras.problems.toy_lexicon import GOVERNING_VERBS, VERBS, Adjective, Modal, Noun, Verb

CASES = ("nominative", "accusative", "dative", "genitive")


def _by_case_and_gender(table: str) -> dict[tuple[str, str], str]:
    header, *rows = (line.split() for line in table.strip().splitlines())
    return {
        (row[0], gender): ending.strip("-")
        for row in rows
        for gender, ending in zip(header, row[1:], strict=True)
    }


DEFINITE_ARTICLE = _by_case_and_gender("""
            m    f    n    plural
nominative  der  die  das  die
accusative  den  die  das  die
dative      dem  der  dem  den
genitive    des  der  des  der
""")

DIESER_ENDINGS = _by_case_and_gender("""
            m   f   n   plural
nominative  er  e   es  e
accusative  en  e   es  e
dative      em  er  em  en
genitive    es  er  es  er
""")

EIN_ENDINGS = _by_case_and_gender("""
            m   f   n   plural
nominative  -   e   -   e
accusative  en  e   -   e
dative      em  er  em  en
genitive    es  er  es  er
""")

RELATIVE_PRONOUN = DEFINITE_ARTICLE | {("dative", "plural"): "denen"}

# Which adjective endings follow which determiner: weak after der and dieser, mixed after ein and
# mein, strong where no ending has shown the case yet.
ADJECTIVE_ENDINGS = {
    "weak": _by_case_and_gender("""
            m   f   n   plural
nominative  e   e   e   en
accusative  en  e   e   en
dative      en  en  en  en
genitive    en  en  en  en
"""),
    "mixed": _by_case_and_gender("""
            m   f   n   plural
nominative  er  e   es  en
accusative  en  e   es  en
dative      en  en  en  en
genitive    en  en  en  en
"""),
    "strong": _by_case_and_gender("""
            m   f   n   plural
nominative  er  e   es  e
accusative  en  e   es  e
dative      em  er  em  en
genitive    en  er  en  er
"""),
}


@dataclasses.dataclass(frozen=True)
class Determiner:
    """What opens a noun phrase: an article, a possessive, a demonstrative, a number, or nothing."""

    english: str
    english_plural: str
    german: str
    endings: dict | None  # None: `german` stands as it is
    adjective: str  # the adjective endings that follow

    def form(self, case: str, gender: str) -> str:
        """Returns the German form, e.g. "einem"."""
        return self.german + (self.endings[case, gender] if self.endings else "")


THE = Determiner("the", "the", "", DEFINITE_ARTICLE, "weak")
THIS = Determiner("this", "these", "dies", DIESER_ENDINGS, "weak")
EVERY = Determiner("every", "", "jed", DIESER_ENDINGS, "weak")
A = Determiner("a", "", "ein", EIN_ENDINGS, "mixed")
BARE = Determiner("", "", "", None, "strong")
POSSESSIVES = tuple(
    Determiner(english, english, german, EIN_ENDINGS, "mixed")
    for english, german in (
        ("my", "mein"),
        ("his", "sein"),
        ("her", "ihr"),
        ("our", "unser"),
        ("their", "ihr"),
    )
)
# Under a negated English verb: "does not have a dog", "any dogs"; German negates the article.
NOT_A = Determiner("a", "any", "kein", EIN_ENDINGS, "mixed")
NOT_ANY = Determiner("any", "any", "kein", EIN_ENDINGS, "mixed")


@dataclasses.dataclass(frozen=True)
class NounPhrase:
    """A noun phrase in both languages, and what verbs and pronouns have to agree with."""

    english: str  # as a subject
    english_object: str
    german: dict[str, str]  # by case
    person: int = 3
    plural: bool = False
    reflexive: str = "sich"
    noun: Noun | None = None  # None for pronouns

    @property
    def classes(self) -> frozenset[str]:
        """What verbs may do with it; pronouns and names are people."""
        has_own = self.noun and "name" not in self.noun.classes
        return self.noun.classes if has_own else frozenset({"person"})

    @property
    def gender(self) -> str:
        """The column of the tables that pronouns for it come from."""
        return "plural" if self.plural else self.noun.gender


def _pronoun(english: str, german: str, person: int, plural: bool, reflexive: str) -> NounPhrase:
    subject, english_object = english.split()
    cases = dict(zip(CASES, german.split(), strict=False))
    return NounPhrase(subject, english_object, cases, person, plural, reflexive)


PERFECT_AUXILIARIES = {
    verb.infinitive: verb
    for verb in (*VERBS, *GOVERNING_VERBS.values())
    if verb.infinitive in ("haben", "sein")
}

PRONOUNS = (
    _pronoun("I me", "ich mich mir", 1, False, "mich"),
    _pronoun("he him", "er ihn ihm", 3, False, "sich"),
    _pronoun("she her", "sie sie ihr", 3, False, "sich"),
    _pronoun("we us", "wir uns uns", 1, True, "uns"),
    _pronoun("they them", "sie sie ihnen", 3, True, "sich"),
)


def noun_form(noun: Noun, case: str, plural: bool) -> str:
    """Returns the German noun: Hund, Hundes, Hunde, Hunden; weak nouns den Jungen."""
    if plural:
        takes_n = case == "dative" and noun.german_plural[-1] not in "ns"
        return noun.german_plural + ("n" if takes_n else "")
    if noun.is_weak and case != "nominative":
        return noun.german_plural
    return noun.german_genitive if case == "genitive" else noun.german


def noun_phrase(
    noun: Noun,
    determiner: Determiner,
    adjective: Adjective | None = None,
    plural: bool = False,
    possessor: NounPhrase | None = None,
) -> NounPhrase:
    """Builds determiner, adjective and noun in every case.

    Args:
      noun: the head.
      determiner: opens the phrase.
      adjective: stands before the noun, with the ending that determiner, case and gender ask for.
      plural: the number of the phrase.
      possessor: "the teacher's car" is `das Auto des Lehrers`; `determiner` must be `THE`.
    """
    gender = "plural" if plural else noun.gender
    opening = determiner.english_plural if plural else determiner.english
    if possessor:
        opening = f"{possessor.english}'s"
    head = noun.english_plural if plural else noun.english
    following = adjective.english if adjective else head
    if opening == "a" and following[0] in "aeiou":
        opening = "an"
    english = " ".join(filter(None, (opening, adjective and adjective.english, head)))
    german = {}
    for case in CASES:
        words = [determiner.form(case, gender)]
        if adjective:
            ending = ADJECTIVE_ENDINGS[determiner.adjective][case, gender]
            words.append(adjective.stem + ending)
        words.append(noun_form(noun, case, plural))
        if possessor:
            words.append(possessor.german["genitive"])
        german[case] = " ".join(filter(None, words))
    return NounPhrase(english, english, german, plural=plural, noun=noun)


def name(noun: Noun) -> NounPhrase:
    """Returns a name, which has no article; its genitive is Annas."""
    german = dict.fromkeys(CASES, noun.german) | {"genitive": noun.german + "s"}
    return NounPhrase(noun.english, noun.english, german, noun=noun)


CONTRACTIONS = {"in dem": "im", "in das": "ins", "zu dem": "zum", "zu der": "zur", "von dem": "vom"}


def prepositional(preposition: str, phrase: str) -> str:
    """Joins a German preposition with its noun phrase: in + dem Garten is im Garten."""
    article, space, rest = phrase.partition(" ")
    joined = f"{preposition} {article}".strip()
    return CONTRACTIONS.get(joined, joined) + space + rest


def german_finite(verb: Verb | Modal, subject: NounPhrase, past: bool = False) -> str:
    """Returns the finite form for the subject, without separable prefix; past is the preterite."""
    if past:
        plural = verb.preterite + ("n" if verb.preterite.endswith("e") else "en")
        return plural if subject.plural else verb.preterite
    if verb.infinitive == "sein":
        return "sind" if subject.plural else {1: "bin", 3: "ist"}[subject.person]
    infinitive = verb.infinitive.removeprefix(getattr(verb, "prefix", ""))
    if subject.plural:
        return infinitive
    # Modals, wissen and mögen: ich kann, er kann. "wird" only looks like one of them.
    if subject.person == 3 or (verb.third[-1] != "t" and verb.infinitive != "werden"):
        return verb.third
    return infinitive.removesuffix("n").removesuffix("e") + "e"


def german_verbs(
    verb: Verb, subject: NounPhrase, past: bool, modal: Modal | None
) -> tuple[str, str]:
    """Returns the two brackets of the German clause: the finite verb, and what stands at its end.

    The past is the perfect of spoken German (hat gesehen), but for verbs whose preterite is usual.
    """
    if modal:
        return german_finite(modal, subject), verb.infinitive
    if not past:
        return german_finite(verb, subject), verb.prefix
    if verb.preterite:
        return german_finite(verb, subject, past=True), verb.prefix
    return german_finite(PERFECT_AUXILIARIES[verb.auxiliary], subject), verb.participle


def zu_infinitive(verb: Verb) -> str:
    """Returns zu sehen, and aufzumachen for a separable verb."""
    if verb.prefix:
        return f"{verb.prefix}zu{verb.infinitive.removeprefix(verb.prefix)}"
    return f"zu {verb.infinitive}"


def english_verbs(
    verb: Verb, subject: NounPhrase, past: bool, modal: Modal | None, support: bool
) -> tuple[str, str]:
    """Returns the auxiliary ("" where there is none) and the verb.

    Args:
      verb: the main verb.
      subject: what the finite form agrees with.
      past: the simple past; with a modal there is none.
      modal: "can", or "want to", which is inflected like a verb.
      support: a question or a negation, in which "do" is the auxiliary of a verb without one.
    """
    third = subject.person == 3 and not subject.plural
    if verb.infinitive == "sein":
        if past:
            return "were" if subject.plural else "was", ""
        return "are" if subject.plural else "is" if third else "am", ""
    base, inflected = verb.english, verb.english_third if third else verb.english
    if modal and not modal.english.endswith(" to"):
        return modal.english, base
    if modal:
        base = f"{modal.english} {base}"
        inflected = f"{modal.english_third if third else modal.english} {verb.english}"
    if support:
        return "did" if past else "does" if third else "do", base
    return "", verb.english_past if past else inflected


_UNITS_EN = "one two three four five six seven eight nine ten eleven twelve".split()
_UNITS_DE = "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split()
_TENS = {2: ("twenty", "zwanzig"), 3: ("thirty", "dreißig")}


def number_words(number: int) -> tuple[str, str]:
    """Returns a number from 2 to 12 or from 20 to 39 in words: thirty-five, fünfunddreißig."""
    if number <= 12:
        return _UNITS_EN[number - 1], _UNITS_DE[number - 1]
    tens, unit = divmod(number, 10)
    english, german = _TENS[tens]
    if unit == 0:
        return english, german
    return f"{english}-{_UNITS_EN[unit - 1]}", f"{_UNITS_DE[unit - 1]}und{german}"
