"""The sentences of the toy problem: an English-German synchronous grammar.

It avoids ambiguous English, so that the translation is a function of the English sentence.
"""

import functools
import random
import re
from collections.abc import Sequence
from typing import Any

from t2t_keras.problems.toy import clauses
from t2t_keras.problems.toy.clauses import PRONOUNS, Clause, Pair, Phrase
from t2t_keras.problems.toy.words import TABLES, Complement, Entry

_SUBJECTS = [PRONOUNS[word] for word in ("I", "I", "he", "she", "we", "they")]
_OBJECTS = [PRONOUNS[word] for word in ("he", "she", "they")]  # "I see me" would be reflexive.
# Verbs whose object a question may ask for, or a relative clause may describe.
_TRANSITIVE = [
    verb
    for verb in TABLES["verbs"]
    if [complement.german_preposition for complement in verb.complements] == [""]
]
_NEVER_NEGATED = {"every", *(entry.name for entry in TABLES["determiners"] if not entry.endings)}


@functools.cache
def _weighted_entries(table: str, column: str) -> tuple:
    """Returns the entries of a table, each repeated as often as its weight in a column says."""
    return tuple(entry for entry in TABLES[table] for _ in range(int(getattr(entry, column))))


@functools.cache
def _entries_of_classes(table: str, classes: frozenset[str]) -> tuple:
    return tuple(entry for entry in TABLES[table] if entry.classes & classes)


class Grammar:
    """A stream of sentence pairs, the same for the same seed."""

    def __init__(self, seed: int):
        # The only method of `Random` that Python promises not to change.
        self._random = random.Random(seed).random

    def _chance(self, probability: float) -> bool:
        return self._random() < probability

    def _pick(self, choices: Sequence) -> Any:
        return choices[int(self._random() * len(choices))]

    def sentence(self) -> Pair:
        """Returns the next English sentence and its German translation.

        In the patterns of words.tsv, words in capitals stand for clauses and name their word order.
        """
        pattern = self._pick(_weighted_entries("sentences", "weight"))
        past = pattern.tense == "past" or (not pattern.tense and self._chance(0.4))
        verbs = [verb for verb in TABLES["verbs"] if verb.german in pattern.verbs.split()]
        english, german = pattern.english, pattern.german
        subject: Phrase | None = None
        word_orders = (re.findall("[A-Z]{2,}[:a-z]*", side) for side in (english, german))
        for english_order, german_order in zip(*word_orders, strict=True):
            order, _, option = english_order.partition(":")
            interrogative = PRONOUNS.get(option)
            if order == "INFINITIVE":
                clause = self._draw_clause(False, "infinitive", subject=subject)
            elif interrogative and order == "QUESTION":
                clause = self._clause_without_object(past, interrogative, question=True)
            else:
                clause = self._draw_clause(past, option or order.lower(), verbs, interrogative)
            verbs, subject = [], clause.subject
            pair = clause.read(order, german_order)
            english = english.replace(english_order, pair[0], 1)
            german = german.replace(german_order, pair[1], 1)
        return _punctuate(english.replace("can not", "cannot")), _punctuate(german)

    def _draw_clause(
        self, past: bool, kind: str, verbs: Sequence = (), subject: Phrase | None = None
    ) -> Clause:
        """Draws a clause, such as "the teacher cannot find the key today".

        Kinds: "question" needs "do" and has no time; "fronted" has the time before the subject;
        "infinitive" and "plain" have no modal verb, negation, time or relative clause. The verb is
        one of `verbs`, or any that goes with the subject.
        """
        is_plain, any_verb = kind in ("infinitive", "plain"), not verbs
        if any_verb:
            verbs = _weighted_entries("verbs", "weight")
            if subject:
                verbs = [verb for verb in verbs if verb.subjects & subject.classes]
        verb = self._draw_verb(verbs, past, is_event=kind in ("infinitive", "fronted"))
        is_event = not (is_plain or verb.preterite)
        has_modal = is_event and not past and self._chance(0.35)
        modal = self._pick(TABLES["modals"]) if has_modal else None
        # "must not" would be `darf nicht`.
        must_be_affirmative = is_plain or (modal and modal.english in ("must", "like to/likes to"))
        negative = not must_be_affirmative and self._chance(0.14)
        subject = subject or self._draw_phrase(verb.subjects, negative)
        clause = Clause(subject, verb, past, modal, negative, question=kind == "question")
        for complement in verb.complements:
            self._add(clause, complement)
        has_place = verb.preterite or "complement" in clause.german
        if any_verb and not has_place and self._chance(0.15 if verb.complements else 0.4):
            self._add(clause, self._pick(TABLES["adjuncts"]).complements[0], slot="adjunct")
        if kind == "fronted" or (is_event and kind != "question" and self._chance(0.35)):
            self._add_time(clause, kind == "fronted")
        elif any_verb and clause.object and not (is_plain or negative) and self._chance(0.2):
            self._describe_object(clause, clause.object)
        return clause

    def _draw_verb(self, verbs: Sequence[Entry], past: bool, is_event: bool = False) -> Entry:
        """Draws a verb, whose past form differs if `past`. `is_event` excludes states ("know")."""
        while True:
            verb = self._pick(verbs)
            if not ((past and verb.english.startswith(verb.past)) or (is_event and verb.preterite)):
                return verb

    def _add(self, clause: Clause, complement: Complement, slot: str = "complement") -> None:
        """Adds a complement of the verb, or a place or a companion."""
        if complement.case == "adjective":
            adjective = self._pick(_entries_of_classes("adjectives", clause.subject.classes))
            clause.fill(slot, (adjective.english, adjective.german))
        else:
            case = "" if complement.german_preposition else complement.case
            phrase = self._draw_phrase(complement.classes, clause.negative, case)
            clause.add(complement, phrase, slot)

    def _add_time(self, clause: Clause, front: bool) -> None:
        """Adds a time that goes with the tense; modal verbs express the future."""
        modal = clause.modal and clause.modal.german
        uses = {"past" if clause.past else "future" if modal else "present"}
        uses |= {"front"} if front else set()
        uses |= {"once"} if modal or clause.negative else set()
        time = self._pick([time for time in TABLES["times"] if uses <= time.fits])
        clause.fill("front" if front else time.slot, (time.english, time.german))

    def _clause_without_object(self, past: bool, pronoun: Phrase, question: bool = False) -> Clause:
        """Draws a clause whose object is a pronoun in front: "whom does she listen to"."""
        candidates = [verb for verb in _TRANSITIVE if verb.complements[0].classes & pronoun.classes]
        verb = self._draw_verb(candidates, past)
        clause = Clause(self._draw_phrase(verb.subjects), verb, past, question=question)
        [complement] = verb.complements
        clause.fill("front", (pronoun.object, pronoun.german[complement.case]))
        clause.english["object"] = complement.preposition
        return clause

    def _describe_object(self, clause: Clause, phrase: Phrase) -> None:
        """Adds a relative clause at the end: "(he sees the man) who sleeps" or "whom she helps"."""
        pronoun = clauses.relative_pronoun(phrase)
        if self._chance(0.5):
            relative = self._clause_without_object(clause.past, pronoun)
        else:
            relative = self._draw_clause(clause.past, "plain", subject=pronoun)
        english, german = relative.read("STATEMENT", "LAST")
        clause.fill("relative", (english, f", {german} ,"))

    def _draw_phrase(
        self, classes: frozenset[str], negative: bool = False, case: str | None = None
    ) -> Phrase:
        """Draws a noun phrase, such as "him", "Anna" or "the old man".

        `case` is the case of an object; "" = after a German preposition, None = a subject. In a
        negated clause a direct object has `kein`, and no phrase has "every".
        """
        if "person" in classes and self._chance(0.25):
            return self._pick(_SUBJECTS if case is None else _OBJECTS)
        noun = self._pick(_entries_of_classes("nouns", classes))
        if "proper" in noun.classes:
            return clauses.noun_phrase(noun)
        plural = bool(noun.plural) and self._chance(0.3)
        column = "plurals" if plural else "singular" if noun.plural else "uncounted"
        name = self._pick(_weighted_entries("determiners", column)).name
        if negative and case == "accusative" and name in ("a", "bare"):
            name = "no"
        # In "hilft Frauen" nothing shows the dative.
        elif (negative and name in _NEVER_NEGATED) or (case == "dative" and name == "bare"):
            name = "the"
        adjective = self._pick(_entries_of_classes("adjectives", noun.classes))
        adjective = adjective if self._chance(0.3) else None
        return clauses.noun_phrase(noun, name, adjective, plural)


def _punctuate(text: str) -> str:
    """Joins punctuation marks to the words before them, and capitalises the sentence."""
    text = re.sub(r"( ,)* ([,.?])", r"\2", text)
    return text[0].upper() + text[1:]
