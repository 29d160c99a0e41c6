"""Hints that are drawn for training text."""

import random
import re

import numpy as np
import pytest
from refusals import refused

from t2t_keras.data.augmentation import OnlineAugmentation
from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.workbench.terms.glossary import MARKS, without_hints
from t2t_keras.workbench.terms.pair_transform import HintDrawer, learn_lexicon

PAIRS = [
    ("The dog sees the red house.", "Der Hund sieht das rote Haus."),
    ("The red dog sleeps.", "Der rote Hund schläft."),
    ("A house sleeps.", "Ein Haus schläft."),
    ("The dogs see the red houses.", "Die Hunde sehen die roten Häuser."),
    ("The dog eats.", "Der Hund frisst."),
    ("The big house of the dog", "Das große Haus des Hundes"),
]
SETTINGS = "source_language=en,target_language=de,vocab_size=330,transforms=terms"


@pytest.fixture(scope="module")
def drawer():
    return HintDrawer(learn_lexicon(PAIRS * 5))


def drawn(drawer, pair, count=300):
    found = [drawer(*pair, random.Random(seed)) for seed in range(count)]
    assert {without_hints(source) for source, _ in found} == {pair[0]}
    assert {target for _, target in found} == {pair[1]}
    return [re.findall("⟪ [^⟪⟫]*?(\\w+) ⟪ ([^⟪⟫]+) ⟫", source) for source, _ in found]


def test_hints_are_the_references_words_behind_those_they_translate(drawer):
    found = drawn(drawer, ("The red dog eats.", "Der rote Hund frisst."))
    assert {len(hints) for hints in found} == {1, 2, 3, 4}
    every = {hint for hints in found for hint in hints}
    assert {("dog", "Hund"), ("eats", "frisst"), ("The", "Der")} <= every
    # Another form of the corpus; a phrase; and the first word as a glossary would have it.
    assert {("red", "rote"), ("red", "roten"), ("dog", "Hundes"), ("The", "der")} <= every
    assert ("dog", "rote Hund") in every
    assert ("dog", "Haus") not in every


def test_rare_words_are_hinted_more_often(drawer):
    first = [hints[0][0] for hints in drawn(drawer, PAIRS[4]) if len(hints) == 1]
    assert first.count("eats") > 1.2 * first.count("The") > 0


def test_what_has_no_hints(drawer):
    same = random.Random(1)
    for pair in (
        ("cat", "Katze"),
        ("%dog", "Hund"),
        ("dog", "{Hund}"),
        ("", ""),
        ("A ⟪ dog ⟪ Hund ⟫", "Ein Hund"),
        ("%dog {house} <dog> dog_house", "%Hund {Haus} <Hund> Hund_Haus"),
    ):
        assert drawer(*pair, same) == pair


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terms")
    for split in ("train", "dev"):
        for side, language in enumerate(("en", "de")):
            lines = "".join(f"{pair[side]}\n" for pair in PAIRS * 20)
            (folder / f"{split}.{language}").write_text(lines, encoding="utf-8")
    problem = make_problem("parallel_text", SETTINGS)
    generate(problem, folder / "data", folder)
    return open_generated(problem, folder / "data")


def test_data_has_the_marks_and_a_lexicon(generated):
    pieces = generated.tokenizer.vocabulary()
    assert all(f"▁{mark}" in pieces for mark in MARKS)
    hinted, _ = generated.augmentations["terms"]("The dog", "Der Hund", random.Random(0))
    assert "dog ⟪ Hund ⟫" in hinted
    hinted = "The ⟪ dog ⟪ Hund ⟫, too"
    [ids] = generated.tokenizer.encode([hinted])
    assert generated.tokenizer.decode([ids]) == [hinted]
    assert {pieces["▁⟪"], pieces["▁⟫"]} <= set(ids.tolist())


@pytest.mark.parametrize("sampling", [0, 0.2])
def test_a_training_reads_hints(generated, sampling):
    store, numbers = generated.store("train"), np.arange(120)
    vary = OnlineAugmentation(
        generated.tokenizer,
        1,
        sampling,
        augment={"terms": 0.4},
        transform_changes=generated.augmentations,
    )
    found = vary.examples(store, numbers, 3)
    sources = generated.tokenizer.decode(found.padded(np.arange(120), "source"))
    targets = generated.tokenizer.decode(found.padded(np.arange(120), "target"))
    assert list(zip(map(without_hints, sources), targets, strict=True)) == PAIRS * 20
    share = sum(source != without_hints(source) for source in sources) / 120
    assert share == pytest.approx(0.4, abs=0.12)


def test_what_is_refused():
    with refused("conflicting_settings", "transforms=terms"):
        make_problem("parallel_text", "augment={upper: 0.1, terms: 0.3}")
    with refused("conflicting_settings", "augment={terms: 0.3}", "transforms=terms"):
        make_problem("translate_ende_toy", "augment={terms: 0.3}")
    assert make_problem("parallel_text", f"{SETTINGS},augment={{terms: 0.3}}").pair_transforms
    with refused("unknown_name", "augmentation 'placeholders'"):
        make_problem("parallel_text", "augment={placeholders: 1}")
    with refused("conflicting_settings", "transforms=[placeholders]", "parsing_trees"):
        make_problem("parsing_trees", "transforms=placeholders")
    with refused("unknown_name", "pair transform 'placeholder'", "'placeholders'"):
        make_problem("parallel_text", "transforms=placeholder")
