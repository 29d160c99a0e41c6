"""The sentences of the toy translation problem: an English-German synchronous grammar.

`Grammar.sentence` draws a sentence and its translation. Every rule is a method whose docstring
shows a pair that it makes; `_SENTENCES` says how often each is used.

The translation is a function of the English sentence, as ambiguous English is avoided: nothing
follows a relative clause at the end of a clause, only whole sentences are joined by "and", and
"put" or "read", whose past looks like the present, have no past.
"""

import dataclasses
import functools
from collections.abc import Callable

from t2t_keras.problems import toy_clauses as clauses
from t2t_keras.problems import toy_inflection as inflection
from t2t_keras.problems import toy_lexicon as lexicon
from t2t_keras.problems.toy_clauses import Clause, Pair
from t2t_keras.problems.toy_inflection import NounPhrase
from t2t_keras.problems.toy_lexicon import Complement, Verb
from t2t_keras.problems.toy_phrases import Dice, Phrases

_COMMA = Pair(",", ",")
_SUBORDINATORS = tuple(
    Pair(*pair.split("/"))
    for pair in "because/weil although/obwohl before/bevor while/während if/wenn when/wenn".split()
)
_GOING = tuple(
    verb
    for verb in lexicon.VERBS
    if verb.infinitive in ("gehen", "fahren", "fliegen", "laufen", "aufstehen", "zurückkommen")
)
_PERSON = frozenset({"person"})
_BE = lexicon.GOVERNING_VERBS["sein"]


@functools.cache
def _single_objects(classes: frozenset[str]) -> tuple[tuple[Verb, Complement], ...]:
    """The verbs with one object, without a German preposition, that is of one of the classes."""
    return tuple(
        (verb, frame[0])
        for verb in lexicon.VERBS
        for frame in verb.frames
        if len(frame) == 1 and not frame[0].german_preposition and frame[0].classes & classes
    )


class Grammar(Phrases):
    """A stream of sentence pairs.

    Args:
      seed: the same seed gives the same sentences.
    """

    def __init__(self, seed: int):
        super().__init__(Dice(seed))

    def sentence(self) -> tuple[str, str]:
        """Returns the next English sentence and its German translation."""
        rule = self.dice.weighted(_SENTENCES)
        return clauses.punctuated(rule(self), "?" if rule in _QUESTIONS else ".")

    # ---- main clauses and questions ---------------------------------------------------------

    def statement(self) -> Pair:
        """The man sees the dog today / der Mann sieht heute den Hund."""
        return self.clause().words(clauses.STATEMENT)

    def fronted(self) -> Pair:
        """Yesterday the man saw the dog / gestern hat der Mann den Hund gesehen."""
        return self.clause(front_time=True).words(clauses.FRONTED)

    def coordination(self) -> Pair:
        """She sings, but he sleeps / sie singt, aber er schläft."""
        joint = self.dice.pick((Pair("and", "und"), Pair(", but", ", aber")))
        first, second = self.clause(time=0.15), self.clause(time=0.15)
        return first.words(clauses.STATEMENT) + joint + second.words(clauses.STATEMENT)

    def yes_no_question(self) -> Pair:
        """Does the man see the dog? / sieht der Mann den Hund?"""
        return self.clause(question=True).words(clauses.QUESTION)

    def adverb_question(self) -> Pair:
        """Where does she work? / wo arbeitet sie?"""
        clause = self.clause(question=True, time=0)
        asked = [Pair("why", "warum"), Pair("when", "wann")]
        placeless = clause.verb.preterite or {"complement", "adjunct"} & clause.german.keys()
        if not placeless:
            asked.append(Pair("where", "wo"))
        clause.fill("front", self.dice.pick(asked))
        return clause.words(clauses.QUESTION)

    def subject_question(self) -> Pair:
        """Who helps the boy? / wer hilft dem Jungen?"""
        who = NounPhrase("who", "", {"nominative": "wer"})
        return self.clause(who).words(clauses.STATEMENT)

    def object_question(self) -> Pair:
        """Whom do you help? what does she eat? / wem hilfst du? was isst sie?"""
        people = self.dice.chance(0.5)
        classes = _PERSON if people else frozenset({"thing", "food", "drink"})
        verb, complement = self.dice.pick(_single_objects(classes))
        clause = self.without_object(verb, complement, past=self.dice.chance(0.4), question=True)
        german = {"accusative": "wen", "dative": "wem"}[complement.case] if people else "was"
        clause.fill("front", Pair("whom" if people else "what", german))
        return clause.words(clauses.QUESTION)

    def without_object(
        self, verb: Verb, complement: Complement, past: bool, question: bool = False
    ) -> Clause:
        """Does she listen to / hört sie zu: the question word or relative pronoun is the object."""
        past = past and verb.english_past != verb.english
        clause = self.verbal(verb, None, past, question)
        clause.english["object"] = complement.english_preposition
        return clause

    # ---- sentences with a subordinate clause ------------------------------------------------

    def subordinate(self, past: bool) -> Pair:
        """Because the man sees the dog / weil der Mann den Hund sieht."""
        conjunction = self.dice.pick(_SUBORDINATORS)
        circumstance = conjunction.german not in ("weil", "obwohl")
        if past and conjunction.german == "wenn":
            conjunction = Pair("when", "als")  # once, in the past
        clause = self.clause(past=past, time=0.15, circumstance=circumstance)
        return conjunction + clause.words(clauses.SUBORDINATE)

    def subordinate_last(self) -> Pair:
        """She sings because he sleeps / sie singt, weil er schläft."""
        past = self.dice.chance(0.4)
        main = self.clause(past=past, time=0.15).words(clauses.STATEMENT)
        subordinate = self.subordinate(past)
        return Pair(
            f"{main.english} {subordinate.english}", f"{main.german} , {subordinate.german}"
        )

    def subordinate_first(self) -> Pair:
        """Because he sleeps, she sings / weil er schläft, singt sie."""
        past = self.dice.chance(0.4)
        main = self.clause(past=past, time=0.15)
        main.fill("front", self.subordinate(past) + _COMMA)
        return main.words(clauses.FRONTED)

    def that_clause(self) -> Pair:
        """He says that the cake is good / er sagt, dass der Kuchen gut ist."""
        verb = self.dice.pick(("sagen", "wissen", "hoffen", "glauben"))
        return self.reported(self.matrix(verb), Pair("that", ", dass"))

    def whether_clause(self) -> Pair:
        """He asks whether she sleeps / er fragt, ob sie schläft."""
        verb = self.dice.pick(("fragen", "wissen"))
        return self.reported(self.matrix(verb, verb == "wissen"), Pair("whether", ", ob"))

    def reported(self, matrix: Clause, conjunction: Pair) -> Pair:
        """He said that she slept / er hat gesagt, dass sie geschlafen hat."""
        past = matrix.past or self.dice.chance(0.3)
        reported = self.clause(past=past).words(clauses.SUBORDINATE)
        return matrix.words(clauses.STATEMENT) + conjunction + reported

    def matrix(self, infinitive: str, negative: bool = False) -> Clause:
        """He says / er sagt."""
        verb, past = lexicon.GOVERNING_VERBS[infinitive], self.dice.chance(0.4)
        subject = self.subject(_PERSON, negative)
        return clauses.verb_clause(subject, verb, past, negative=negative)

    # ---- infinitives ------------------------------------------------------------------------

    def purpose(self) -> Pair:
        """She goes into the kitchen to cook soup / sie geht in die Küche, um Suppe zu kochen."""
        past = self.dice.chance(0.4)
        verb = self.dice.pick(_GOING)
        main = self.verbal(verb, self.subject(_PERSON), past)
        self.complete(main, verb)
        return main.words(clauses.STATEMENT) + Pair("to", ", um") + self.infinitive(main.subject)

    def attempt(self) -> Pair:
        """They try to open the door / sie versuchen, die Tür aufzumachen."""
        matrix = self.matrix("versuchen")
        return matrix.words(clauses.STATEMENT) + Pair("to", ",") + self.infinitive(matrix.subject)

    def infinitive(self, subject: NounPhrase) -> Pair:
        """(to) open the door / die Tür aufzumachen."""
        verb = self.verb(subject, past=False, lasting=False)
        clause = clauses.verb_clause(subject, verb)
        self.complete(clause, verb)
        return clause.words(clauses.INFINITIVE)

    # ---- relative clauses -------------------------------------------------------------------

    def relative_on_subject(self) -> Pair:
        """The man who sleeps sees the dog / der Mann, der schläft, sieht den Hund."""
        head = self.noun_phrase(frozenset({"person", "animal", "thing"}), True, known=True)
        relative = self.relative(head)
        subject = dataclasses.replace(
            head,
            english=f"{head.english} {relative.english}",
            german={"nominative": f"{head.german['nominative']} , {relative.german} ,"},
        )
        return self.clause(subject).words(clauses.STATEMENT)

    def relative_on_object(self) -> Pair:
        """She found the key that he needs / sie hat den Schlüssel gefunden, den er braucht."""
        classes = frozenset({"person", "animal", "thing", "food"})
        verb, complement = self.dice.pick(_single_objects(classes))
        clause = self.without_object(verb, complement, past=self.dice.chance(0.4))
        negative = bool(clause.german.get("not"))
        phrase = self.noun_phrase(complement.classes & classes, negative=True)
        if negative:
            phrase = inflection.noun_phrase(phrase.noun, inflection.THE)
        clauses.fill_complement(clause, complement, phrase, has_two=False)
        relative = self.relative(phrase)
        clause.fill("relative", Pair(relative.english, f", {relative.german}"))
        if self.dice.chance(0.7):
            return clause.words(clauses.STATEMENT)
        self.say_when(clause, front=True)
        return clause.words(clauses.FRONTED)

    def relative(self, head: NounPhrase) -> Pair:
        """Who sleeps / der schläft; whom she helps / dem sie hilft."""
        past = self.dice.chance(0.4)
        if self.dice.chance(0.5):
            pronoun = clauses.relative_pronoun(head)
            subject = dataclasses.replace(
                head, english=pronoun.english, german={"nominative": pronoun.german}
            )
            return self.clause(subject, past, time=0.15).words(clauses.SUBORDINATE)
        verb, complement = self.dice.pick(_single_objects(head.classes))
        clause = self.without_object(verb, complement, past)
        clause.fill("front", clauses.relative_pronoun(head, complement))
        return clause.words(clauses.RELATIVE_TO_OBJECT)

    # ---- idioms -----------------------------------------------------------------------------

    def existence(self) -> Pair:
        """There is a bird in the garden / im Garten gibt es einen Vogel."""
        noun = self.dice.pick([noun for noun in lexicon.NOUNS if "place" not in noun.classes])
        plural = bool(noun.english_plural) and self.dice.chance(0.5)
        if plural:
            opening = self.number() if self.dice.chance(0.5) else inflection.BARE
        else:
            opening = inflection.A if noun.english_plural else inflection.BARE
        phrase = inflection.noun_phrase(noun, opening, self.adjective(noun), plural)
        where = lexicon.ADJUNCTS[0]
        classes = where.classes if "animal" in noun.classes else frozenset({"room", "building"})
        place = self.noun_phrase(classes, negative=True, known=True)
        in_place = clauses.with_preposition(where, place)
        past = self.dice.chance(0.4)
        auxiliary, _ = inflection.english_verbs(_BE, phrase, past, None, support=False)
        return Pair(
            f"there {auxiliary} {phrase.english} {in_place.english}",
            f"{in_place.german} {'gab' if past else 'gibt'} es {phrase.german['accusative']}",
        )

    def age(self) -> Pair:
        """My brother is 42 years old / mein Bruder ist 42 Jahre alt."""
        years = self.large_number() + Pair("years old", "Jahre alt")
        clause = clauses.verb_clause(self.subject(_PERSON), _BE, past=self.dice.chance(0.3))
        clause.fill("complement", years)
        return clause.words(clauses.STATEMENT)

    def price(self) -> Pair:
        """The lamp costs thirty-five euros / die Lampe kostet fünfunddreißig Euro."""
        cost = lexicon.GOVERNING_VERBS["kosten"]
        clause = clauses.verb_clause(self.noun_phrase(cost.subjects), cost)
        clause.fill("object", self.large_number() + Pair("euros", "Euro"))
        return clause.words(clauses.STATEMENT)

    def equality(self) -> Pair:
        """The dog is not as old as the cat / der Hund ist nicht so alt wie die Katze."""
        classes = self.dice.pick((_PERSON, frozenset({"animal"}), frozenset({"thing"})))
        clause = self.predicative(self.noun_phrase(classes, negative=True), self.dice.chance(0.4))
        other = self.noun_phrase(classes, negative=True)
        words = clause.english["complement"], clause.german["complement"]
        english, german = words[0].removeprefix("very "), words[1].removeprefix("sehr ")
        clause.fill(
            "complement",
            Pair(
                f"as {english} as {other.english_object}",
                f"so {german} wie {other.german['nominative']}",
            ),
        )
        return clause.words(clauses.STATEMENT)


_QUESTIONS: dict[Callable, int] = {
    Grammar.yes_no_question: 7,
    Grammar.adverb_question: 5,
    Grammar.subject_question: 2,
    Grammar.object_question: 4,
}

# How often each rule is used, in percent.
_SENTENCES: dict[Callable, int] = _QUESTIONS | {
    Grammar.statement: 16,
    Grammar.fronted: 12,
    Grammar.coordination: 4,
    Grammar.subordinate_last: 8,
    Grammar.subordinate_first: 7,
    Grammar.that_clause: 8,
    Grammar.whether_clause: 3,
    Grammar.purpose: 4,
    Grammar.attempt: 3,
    Grammar.relative_on_subject: 4,
    Grammar.relative_on_object: 5,
    Grammar.existence: 3,
    Grammar.age: 4,
    Grammar.price: 3,
    Grammar.equality: 2,
}
