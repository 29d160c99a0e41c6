"""Random noun phrases and clauses of the toy translation problem.

All chance comes from `Dice`, so that a seed gives the same text everywhere. The docstring of a
rule shows a pair that it makes.
"""

import functools
import random
from collections.abc import Sequence
from typing import TypeVar

from t2t_keras.problems import toy_clauses as clauses
from t2t_keras.problems import toy_inflection as inflection
from t2t_keras.problems import toy_lexicon as lexicon
from t2t_keras.problems.toy_clauses import Clause, Pair
from t2t_keras.problems.toy_inflection import Determiner, NounPhrase
from t2t_keras.problems.toy_lexicon import Adjective, Complement, Noun, Verb

Choice = TypeVar("Choice")

_PERSON, _ANIMAL = frozenset({"person"}), frozenset({"animal"})
_DESCRIBED = (_PERSON, _PERSON, _ANIMAL, frozenset({"thing", "surface"}), frozenset({"place"}))
_GRADED = frozenset({"person", "place", "food"})  # very tired, but not very white
_BE = lexicon.GOVERNING_VERBS["sein"]


class Dice:
    """Seeded chance that is the same in every version of Python.

    Only `random.Random.random` is promised never to change, so everything is made from it.
    """

    def __init__(self, seed: int):
        self._random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        """Draws True with this probability."""
        return self._random() < probability

    def number(self, first: int, last: int) -> int:
        """Draws a whole number from first to last, both included."""
        return first + int(self._random() * (last - first + 1))

    def pick(self, choices: Sequence[Choice]) -> Choice:
        """Draws one of the choices."""
        return choices[int(self._random() * len(choices))]

    def weighted(self, choices: dict[Choice, int]) -> Choice:
        """Picks a key in proportion to its weight."""
        ticket = self._random() * sum(choices.values())
        for choice, weight in choices.items():
            ticket -= weight
            if ticket < 0:
                return choice
        return choice


@functools.cache
def _nouns(classes: frozenset[str]) -> tuple[Noun, ...]:
    return tuple(noun for noun in (*lexicon.NOUNS, *lexicon.NAMES) if noun.classes & classes)


@functools.cache
def _verbs(subject: frozenset[str] | None, past: bool, lasting: bool) -> tuple[Verb, ...]:
    """The verbs that go with a subject of these classes.

    Not in the past, if that looks like the present; `lasting` lets in verbs such as "have" and
    "know", which do not happen at a time.
    """
    return tuple(
        verb
        for verb in lexicon.VERBS
        if (subject is None or verb.subjects & subject)
        and not (past and verb.english_past == verb.english)
        and (lasting or not verb.preterite)
    )


_ADJECTIVES_OF = {
    noun: tuple(each for each in lexicon.ADJECTIVES if each.classes & noun.classes)
    for noun in lexicon.NOUNS
}


class Phrases:
    """The rules below the sentence: noun phrases and clauses.

    Args:
      dice: where all choices come from.
    """

    def __init__(self, dice: Dice):
        self.dice = dice

    # ---- noun phrases -----------------------------------------------------------------------

    def subject(self, classes: frozenset[str], negative: bool = False) -> NounPhrase:
        """we, Anna, the old man: people are often pronouns, sometimes names."""
        if "person" in classes:
            kind = self.dice.weighted({"pronoun": 30, "name": 8, "noun": 62})
            if kind == "pronoun":
                # "I" is the only one with verb forms of its own, which are to be met often enough.
                return self.dice.pick((*2 * inflection.PRONOUNS[:1], *inflection.PRONOUNS))
            if kind == "name":
                return self.name()
            animals = "animal" in classes and self.dice.chance(0.4)
            classes = _ANIMAL if animals else _PERSON
        return self.noun_phrase(classes, negative, known=True)

    def name(self) -> NounPhrase:
        """Anna, Peter."""
        return inflection.name(self.dice.pick(_nouns(frozenset({"name"}))))

    def noun_phrase(
        self,
        classes: frozenset[str],
        negative: bool = False,
        indefinite: Sequence = (),
        known: bool = False,
    ) -> NounPhrase:
        """The old man / der alte Mann, my sister's car / das Auto meiner Schwester.

        Args:
          classes: one of them is the noun's.
          negative: the clause is negated, so no "every" and no number.
          indefinite: determiners for "a" and for a bare plural, where they are not the usual.
          known: it is the topic or a place, so rarely "a".
        """
        noun = self.dice.pick(_nouns(classes))
        if "city" in noun.classes:
            return inflection.name(noun)
        a, bare = indefinite or (inflection.A, inflection.BARE)
        adjective = self.adjective(noun)
        if "mass" in noun.classes:
            kinds, plural, a = {"the": 4, "a": 5, "possessive": 2}, False, bare
        else:
            kinds = {"the": 40, "a": 12 if known else 25, "possessive": 20, "this": 8}
            plural = self.dice.chance(0.2 if known else 0.35)
            if not negative:
                kinds |= {"number": 10} if plural else {"every": 3, "genitive": 6}
        kind = self.dice.weighted(kinds)
        if kind == "genitive" and "person" not in noun.classes:
            possessor = self.possessor()
            return inflection.noun_phrase(noun, inflection.THE, adjective, possessor=possessor)
        opening = {
            "the": inflection.THE,
            "genitive": inflection.THE,
            "a": bare if plural else a,
            "possessive": self.dice.pick(inflection.POSSESSIVES),
            "this": inflection.THIS,
            "every": inflection.EVERY,
            "number": self.number(),
        }[kind]
        return inflection.noun_phrase(noun, opening, adjective, plural)

    def adjective(self, noun: Noun) -> Adjective | None:
        """Three nouns in ten have one, of those that suit the noun."""
        return self.dice.pick(_ADJECTIVES_OF[noun]) if self.dice.chance(0.3) else None

    def possessor(self) -> NounPhrase:
        """The teacher('s) / des Lehrers."""
        opening = self.dice.pick((inflection.THE, self.dice.pick(inflection.POSSESSIVES)))
        return inflection.noun_phrase(self.dice.pick(_nouns(_PERSON)), opening)

    def number(self) -> Determiner:
        """Three / drei."""
        english, german = inflection.number_words(self.dice.number(2, 12))
        return Determiner("", english, german, None, "strong")

    def large_number(self) -> Pair:
        """thirty-five / fünfunddreißig, 35 / 35."""
        number = self.dice.number(20, 39)
        if self.dice.chance(0.5):
            return Pair(str(number), str(number))
        return Pair(*inflection.number_words(number))

    # ---- clauses ----------------------------------------------------------------------------

    def clause(
        self,
        subject: NounPhrase | None = None,
        past: bool | None = None,
        question: bool = False,
        front_time: bool = False,
        time: float = 0.35,
        circumstance: bool = False,
    ) -> Clause:
        """The teacher does not buy a car today / der Lehrer kauft heute kein Auto.

        Args:
          subject: drawn where it is None.
          past: drawn where it is None.
          question: English uses "do".
          front_time: says when in the slot "front", which German follows with the finite verb.
          time: otherwise, how probable it is that the clause says when.
          circumstance: it is behind "if" or "before", so neither future nor negated.
        """
        past = self.dice.chance(0.4) if past is None else past
        when = front_time or self.dice.chance(time)
        verb = self.verb(subject, past, lasting=not when)
        if self.dice.chance(0.13) or verb is None:
            clause = self.predicative(subject, past, not circumstance, when or circumstance)
        else:
            clause = self.verbal(verb, subject, past, question, circumstance)
            self.complete(clause, verb)
        if when:
            self.say_when(clause, front_time)
        return clause

    def verb(self, subject: NounPhrase | None, past: bool, lasting: bool) -> Verb | None:
        """A verb that goes with the subject; None where there is no such verb."""
        possible = _verbs(subject and subject.classes, past, lasting)
        return self.dice.pick(possible) if possible else None

    def verbal(
        self,
        verb: Verb,
        subject: NounPhrase | None,
        past: bool,
        question: bool = False,
        circumstance: bool = False,
    ) -> Clause:
        """She can not find / sie kann nicht finden; the complements are still missing."""
        kind = "plain"
        if not verb.preterite and not past and not circumstance:
            kind = self.dice.weighted({"plain": 64, "modal": 28, "likes to": 8})
        modal = self.dice.pick(lexicon.MODALS) if kind == "modal" else None
        # "must not" would be `darf nicht`.
        must = modal and modal.english == "must"
        affirmative = kind == "likes to" or must or circumstance
        negative = not affirmative and self.dice.chance(0.14)
        subject = subject or self.subject(verb.subjects, negative)
        likes_to = kind == "likes to" and "person" in subject.classes
        return clauses.verb_clause(subject, verb, past, modal, likes_to, negative, question)

    def complete(self, clause: Clause, verb: Verb) -> None:
        """Fills in what the verb asks for, and perhaps where or with whom it happens."""
        frame = self.dice.pick(verb.frames)
        for complement in frame:
            phrase = self.complement(clause, complement, len(frame) > 1)
            clauses.fill_complement(clause, complement, phrase, has_two=len(frame) > 1)
        free = not verb.preterite and "complement" not in clause.german
        if free and self.dice.chance(0.15 if frame else 0.45):
            outside = "animal" in clause.subject.classes
            adjunct = lexicon.ADJUNCTS[0] if outside else self.dice.pick(lexicon.ADJUNCTS)
            place = self.noun_phrase(adjunct.classes, negative=True, known=True)
            clause.fill("adjunct", clauses.with_preposition(adjunct, place))

    def complement(self, clause: Clause, complement: Complement, has_two: bool) -> NounPhrase:
        """Him / ihm, a dog / einen Hund, and under a negation any dogs / keine Hunde."""
        if "person" in complement.classes:
            kind = self.dice.weighted({"pronoun": 15, "name": 8, "noun": 77})
            if kind == "pronoun":  # "I see me" would be reflexive
                anyone = clause.subject.person == 3
                others = [each for each in inflection.PRONOUNS if anyone or each.person == 3]
                return self.dice.pick(others)
            if kind == "name":
                return self.name()
        negative = bool(clause.german.get("not"))
        bare = not complement.german_preposition
        indefinite = ()  # the usual ones
        if bare and negative and not (has_two and complement.case == "dative"):
            indefinite = (inflection.NOT_A, inflection.NOT_ANY)
        elif bare and negative:  # in "gives no child an apple" only one of the two could be negated
            indefinite = (inflection.THE, inflection.THE)
        elif (
            bare and complement.case == "dative"
        ):  # nothing would show the dative in "hilft Frauen"
            indefinite = (inflection.A, inflection.THE)
        return self.noun_phrase(complement.classes, negative, indefinite)

    def predicative(
        self,
        subject: NounPhrase | None,
        past: bool,
        may_be_negative: bool = True,
        state: bool = False,
    ) -> Clause:
        """The coat was very expensive / der Mantel war sehr teuer."""
        negative = may_be_negative and self.dice.chance(0.14)
        subject = subject or self.subject(self.dice.pick(_DESCRIBED), negative)
        classes = subject.classes
        possible = [
            each
            for each in lexicon.ADJECTIVES
            if each.classes & classes and (not state or "state" in each.classes)
        ]
        adjective = self.dice.pick(possible)
        clause = clauses.verb_clause(subject, _BE, past, negative=negative)
        pair = Pair(adjective.english, adjective.german)
        if not negative and adjective.classes & _GRADED and self.dice.chance(0.3):
            pair = Pair("very", "sehr") + pair
        clause.fill("complement", pair)
        return clause

    def say_when(self, clause: Clause, front: bool) -> None:
        """Yesterday / gestern: a time that goes with the tense; a modal verb tells the future."""
        tense = "past" if clause.past else "future" if clause.modal else "present"
        once = clause.modal or clause.english.get("not")
        possible = [
            adverb
            for adverb in lexicon.TIMES
            if tense in adverb.times
            and not (once and "repeated" in adverb.times)
            and not (front and adverb.before_verb)
        ]
        clauses.fill_time(clause, self.dice.pick(possible), front)
