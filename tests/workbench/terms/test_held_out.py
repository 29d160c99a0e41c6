"""The experiment on terms that no hint ever had."""

import json
import re
import runpy

import pytest
from refusals import refused

from t2t_keras.io.files import MANIFEST_FILE
from t2t_keras.workbench.terms.pair_transform import Lexicon, Terms, learn_lexicon

WORDS = {"house": "maison", "horse": "cheval", "window": "fenêtre", "table": "bureau"}


@pytest.fixture
def experiment(root):
    return runpy.run_path(root / "experiments" / "terms" / "held_out.py")


@pytest.fixture
def chosen(experiment, tmp_path):
    """Arguments of `choose`, and what it is given."""
    pairs = [(f"{a} {b}", f"{WORDS[a]} {WORDS[b]}") for a in WORDS for b in WORDS] * 3
    (tmp_path / Terms.artifact).write_bytes(learn_lexicon(pairs).to_bytes())
    (tmp_path / MANIFEST_FILE).write_text(json.dumps({"files": {Terms.artifact: {}}}))
    for side, code in enumerate(("en", "fr")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (tmp_path / f"text.{code}").write_text(text, encoding="utf-8")
    return tmp_path, str(tmp_path / "text"), "en,fr", tmp_path / "test", 0.5, 10


def test_terms_are_chosen_left_out_and_counted(experiment, chosen, capsys):
    experiment["choose"](*chosen)
    folder, test = chosen[0], chosen[3]
    terms = dict(line.split("\t") for line in (test / "glossary.tsv").read_text().splitlines())
    assert len(terms) == 2
    assert terms.items() <= WORDS.items()
    lexicon = Lexicon.from_bytes((folder / Terms.artifact).read_bytes())
    assert {word for word in WORDS if not lexicon.translations(word)} == set(terms)
    references = (test / "reference.txt").read_text()
    (folder / "other.txt").write_text(references.replace(*list(terms.values())[::-1]))
    experiment["count"](test, [test / "reference.txt", folder / "other.txt"])
    actual = capsys.readouterr().out.splitlines()
    assert re.findall(r"\d+", actual[0])[:3] == ["10", "2", "2"]
    assert "(100.0%), inflected 0 (0.0%), missing 0" in actual[1]
    assert "missing 0" not in actual[2]


def test_an_interruption_leaves_no_test_set(experiment, chosen):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    experiment["choose"].__globals__["write_json"] = interrupted
    with pytest.raises(KeyboardInterrupt):
        experiment["choose"](*chosen)
    assert not chosen[3].exists()
    chosen[3].mkdir()
    with refused("output_exists", chosen[3]):
        experiment["choose"](*chosen)
