"""A text of 24 sentences that three systems translate differently well."""

import random

import pytest
from browser import chromium  # noqa: F401

from t2t_keras.lab.comparison.systems import System, TranslatedText

WORDS = "the a dog cat man woman sees eats holds red small house tree with and runs to it".split()


@pytest.fixture(scope="session")
def text():
    chance = random.Random(1)

    def worse(line, share):
        return " ".join(
            chance.choice(WORDS) if chance.random() < share else word for word in line.split()
        )

    references = [
        " ".join(chance.choices(WORDS, k=length)).capitalize() + "." for length in range(3, 27)
    ]
    systems = [
        System(name, [worse(line, share) for line in references], f"{name}.txt")
        for name, share in (("base", 0.3), ("new", 0.25), ("bad", 0.6))
    ]
    sources = [f"Source {number}" for number in range(len(references))]
    return TranslatedText(systems, references, "ref.txt", sources, "source.txt")
