"""One model of several languages: what stands before a source, in the data and for users."""

import pytest
from refusals import refused

from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.settings import parse_assignments

TEXTS = {
    "news.en-de": (["a cat", "a dog"], ["eine Katze", "ein Hund"]),
    "news.en-fr": (["a cat", "a tree"], ["un chat", "un arbre"]),
    "dev.en-de": (["the dog"], ["der Hund"]),
    "dev.fr-de": (["un chat"], ["eine Katze"]),
}
CONFIG = "train=[news.en-de, news.en-fr],dev=[dev.en-de, dev.fr-de],target_language=de"
CONFIG += ",vocab_size=290"


@pytest.fixture
def text(tmp_path):
    for stem, sides in TEXTS.items():
        for code, lines in zip(stem.partition(".")[2].split("-"), sides, strict=True):
            (tmp_path / f"{stem}.{code}").write_text("\n".join(lines) + "\n")
    return tmp_path


def generated_with(text, config):
    problem = make_problem("multilingual_text", config)
    generate(problem, text / "data", text)
    return open_generated(problem, text / "data")


def test_each_source_says_what_to_write(text, pairs_of):
    generated = generated_with(text, f"{CONFIG},source_tokens={{news.en-fr: <BT>}}")
    assert pairs_of(generated, "train") == [
        ("<2de> a cat", "eine Katze"),
        ("<2de> a dog", "ein Hund"),
        ("<2fr> <BT> a cat", "un chat"),
        ("<2fr> <BT> a tree", "un arbre"),
    ]
    assert generated.text("dev") == (["<2de> the dog", "<2de> un chat"], ["der Hund", "eine Katze"])
    assert generated.corpora == {"news.en-de": 2, "news.en-fr": 2}
    tokenizer = generated.tokenizer
    [ids] = tokenizer.encode(["<2fr> <BT> a cat"])
    assert tokenizer.pieces(ids)[:2] == ["\u2581<2fr>", "\u2581<BT>"]
    problem = generated.problem
    assert problem.preprocess("a cat") == "<2de> a cat"
    assert problem.preprocess("<2fr> a cat") == "<2fr> a cat"
    assert problem.preprocess("<b> a cat") == "<2de> <b> a cat"
    assert problem.words_in_front("<2fr> <b> a cat") == "<2fr> "
    # As imported models of OPUS-MT have it.
    assert make_problem("parallel_text").words_in_front(">>fra<< A >> cat.") == ">>fra<< "


def test_each_text_is_filtered_by_its_own_languages(text, pairs_of):
    german, french = "Der Hund schläft im Garten.", "Le chien dort dans le jardin."
    (text / "news.en-de.de").write_text(f"{german}\n{french}\n")
    (text / "news.en-fr.fr").write_text(f"{german}\n{french}\n")
    pairs = pairs_of(generated_with(text, f"{CONFIG},filters=language"), "train")
    assert pairs == [("<2de> a cat", german), ("<2fr> a tree", french)]
    for code in ("en", "xx"):
        (text / f"news.en-xx.{code}").write_text("a\n")
    with refused("unknown_language", "'xx'"):
        generated_with(text, f"{CONFIG.replace('en-fr', 'en-xx')},filters=language")


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ("target_language=", ["target_language", " de, fr, ", "''"]),
        ("dev=dev", ["'dev'"]),
        ("dev=dev.de-de", ["'dev.de-de'"]),
        ("source_tokens={web: <BT>}", ["source_tokens", "'web: <BT>'"]),
        ("source_tokens={news.en-de: BT}", ["source_tokens", "'news.en-de: BT'"]),
    ],
)
def test_what_is_missing_is_named(text, config, names):
    with refused("bad_value", *names):
        generated_with(text, parse_assignments(CONFIG) | parse_assignments(config))
