import collections
import math
import shutil
import subprocess

import pytest
import sacremoses

from t2t_keras import registry
from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu import bleu
from t2t_keras.evaluation.conventions import _split_compounds, convention_bleu

# Plain text, and what Moses's tokenizer.perl makes of it.
REFERENCES = {
    'Das Rich-Text-Format ("neu") ist z.B. gut.': (
        "Das Rich-Text-Format ( &quot; neu &quot; ) ist z.B. gut ."
    ),
    "Dr. Müller kam am 3. Mai, nicht wahr?": "Dr. Müller kam am 3. Mai , nicht wahr ?",
    "Die EU-Kommission sagt 3,5 % mehr voraus.": "Die EU-Kommission sagt 3,5 % mehr voraus .",
}
HYPOTHESES = {
    'Ein Rich-Text-Format ("neu") ist z.B. gut.': (
        "Ein Rich-Text-Format ( &quot; neu &quot; ) ist z.B. gut ."
    ),
    "Dr. Müller kam am 3. Mai, oder?": "Dr. Müller kam am 3. Mai , oder ?",
    "Die EU-Behörde sagt 3,5 % mehr voraus.": "Die EU-Behörde sagt 3,5 % mehr voraus .",
}


def multi_bleu(hypotheses, references):
    """BLEU by its definition, on words as they are, without smoothing."""
    found, total = collections.Counter(), collections.Counter()
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        for n in range(1, 5):
            ours, theirs = (
                collections.Counter(
                    tuple(words[i : i + n]) for i in range(max(len(words) - n + 1, 0))
                )
                for words in (hypothesis.split(), reference.split())
            )
            found[n] += (ours & theirs).total()
            total[n] += ours.total()
    length, expected = (sum(len(s.split()) for s in side) for side in (hypotheses, references))
    brevity = min(1, math.exp(1 - expected / length))
    return 100 * brevity * math.prod(found[n] / total[n] for n in range(1, 5)) ** 0.25


def split(lines):
    """What perl's s{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g makes of these lines."""
    return [line.replace("-", " ##AT##-##AT## ") for line in lines]


def test_each_is_computed_on_its_own_text():
    hypotheses, references = list(HYPOTHESES), list(REFERENCES)
    tokenised = [list(text.values()) for text in (HYPOTHESES, REFERENCES)]
    expected = {
        "tokenised": multi_bleu(*tokenised),
        "compound_split": multi_bleu(*map(split, tokenised)),
    }
    assert expected["compound_split"] > expected["tokenised"] + 1
    for convention, value in expected.items():
        score = convention_bleu(hypotheses, references, convention, "de")
        assert score.bleu == pytest.approx(value, abs=1e-9)
        assert str(score).startswith(f"BLEU ({convention})|nrefs:1|case:mixed|")
        assert f"|tok:moses-de-sacremoses-{sacremoses.__version__}" in score.signature
        assert score.signature.split("|")[3].endswith("-compounds-split") == (
            convention == "compound_split"
        )
        assert "|smooth:none|" in score.signature
        assert str(score).endswith(f" = {value:.2f}")


def test_punctuation_is_made_ascii_as_by_the_script():
    quote, dash = "\N{RIGHT SINGLE QUOTATION MARK}", "\N{EN DASH}"
    hypothesis = f"Er sagt heute: „Das ist{quote}s … {dash} ja“, gern."
    reference = f'Er sagt heute: „Das ist{quote}s … {dash} ja”, "gern".'
    # By replace-unicode-punctuation.perl, then tokenizer.perl; the reference has ASCII quotes only.
    expected = multi_bleu(
        [f"Er sagt heute : „ Das ist &apos; s ... {dash} ja &quot; , gern ."],
        [f"Er sagt heute : &quot; Das ist {quote} s … {dash} ja &quot; , &quot; gern &quot; ."],
    )
    assert expected > 10
    score = convention_bleu([hypothesis], [reference], "compound_split", "de")
    assert score.bleu == pytest.approx(expected, abs=1e-9)
    assert "-unicode-punct-replaced-ref-quotes-ascii-compounds-split|" in score.signature
    other = convention_bleu([hypothesis], [reference], "tokenised", "de")
    assert "punct" not in other.signature


def test_case():
    upper = [line.upper() for line in REFERENCES]
    assert convention_bleu(upper, list(REFERENCES), "tokenised", "de").bleu < 20
    score = convention_bleu(upper, list(REFERENCES), "tokenised", "de", lowercase=True)
    assert score.bleu > 60
    assert "|case:lc|" in score.signature


def test_compounds_are_split_as_by_the_script():
    lines = ["rich-text format", "a-b-c-d", "a -b- c", "- x", "1-2-3", "über-größe", "--", "a--b"]
    if not shutil.which("perl"):
        pytest.skip("needs perl")
    done = subprocess.run(
        ["perl", "-CSD", "-ple", r"s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=True,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
    )
    assert list(map(_split_compounds, lines)) == done.stdout.splitlines()


def test_the_paper_s_problem_reports_all_three():
    hypotheses, references = list(HYPOTHESES), list(REFERENCES)
    score = registry.problem("translate_ende").score(hypotheses, references)
    assert score.bleu == bleu(hypotheses, references).bleu
    starts = ("BLEU|nrefs:1|", "chrF2|", "BLEU (tokenised)|", "BLEU (compound_split)|")
    for line, start in zip(str(score).splitlines(), starts, strict=True):
        assert line.startswith(start)
    assert [each.convention for each in score.conventions] == ["tokenised", "compound_split"]
    english = registry.problem("translate_ende_rev").score(hypotheses, references)
    assert "tok:moses-en-" in str(english)
    assert "compound" not in str(registry.problem("translate_enfr").score(hypotheses, references))


@pytest.mark.parametrize(
    ("convention", "language", "message"),
    [
        ("compound-split", "de", "no convention 'compound-split'.* Did you mean 'compound_split'"),
        ("tokenised", "", "tokenised tokenises by language: give that of the translations"),
    ],
)
def test_refuses(convention, language, message):
    with pytest.raises(UserError, match=message):
        bleu(["a"], ["a"], conventions=[convention], language=language)
