import pytest
import sacremoses
from sacrebleu.metrics import BLEU

from t2t_keras.data.problem import make_problem
from t2t_keras.metrics import bleu, convention_bleu, split_compounds

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
    """BLEU on words as they are, without smoothing, as multi-bleu.perl computes it."""
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    return metric.corpus_score(hypotheses, [references]).score


def split(lines):
    r"""What perl's s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g makes of these lines."""
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
        assert f"|tok:moses-de-sacremoses-{sacremoses.__version__}" in score.signature
        assert ("-compounds-split|" in score.signature) == (convention == "compound_split")
        assert "|smooth:none|" in score.signature
        line = str(bleu(hypotheses, references, conventions=[convention], language="de"))
        assert line.splitlines()[-1] == f"BLEU ({convention})|{score.signature} = {value:.2f}"


def test_punctuation_is_made_ascii_as_by_the_script():
    quote, dash = "\N{RIGHT SINGLE QUOTATION MARK}", "\N{EN DASH}"
    hypothesis = f'Er sagt heute: „Das ist{quote}s … {dash} ja“, "gern".'
    reference = f"Er sagt heute: „Das ist{quote}s … {dash} ja”, ‟gern“."
    # By replace-unicode-punctuation.perl, then tokenizer.perl; the reference has ASCII quotes only.
    expected = multi_bleu(
        [f"Er sagt heute : „ Das ist &apos; s ... {dash} ja &quot; , &quot; gern &quot; ."],
        [f"Er sagt heute : &quot; Das ist {quote} s … {dash} ja &quot; , &quot; gern &quot; ."],
    )
    assert expected > 10
    score = convention_bleu([hypothesis], [reference], "compound_split", "de")
    assert score.bleu == pytest.approx(expected, abs=1e-9)
    assert "-unicode-punct-replaced-ref-quotes-ascii-compounds-split|" in score.signature


def test_case():
    upper = [line.upper() for line in REFERENCES]
    assert convention_bleu(upper, list(REFERENCES), "tokenised", "de").bleu < 20
    score = convention_bleu(upper, list(REFERENCES), "tokenised", "de", lowercase=True)
    assert score.bleu > 60
    assert "|case:lc|" in score.signature


@pytest.mark.parametrize(
    ("line", "split"),
    [
        # By perl -ple 's{(\S)-(\S)}{$1 ##AT##-##AT## $2}g'.
        ("über-größe format", "über ##AT##-##AT## größe format"),
        ("a-b-c-d", "a ##AT##-##AT## b-c ##AT##-##AT## d"),
        ("a -b- c", "a -b- c"),
        ("- x --", "- x --"),
        ("a--b", "a ##AT##-##AT## -b"),
    ],
)
def test_compounds_are_split_as_by_the_script(line, split):
    assert split_compounds(line) == split


def test_the_paper_s_problem_reports_all_three():
    hypotheses, references = list(HYPOTHESES), list(REFERENCES)
    score = make_problem("translate_ende").score(hypotheses, references)
    assert score.bleu == bleu(hypotheses, references).bleu
    starts = ("BLEU|nrefs:1|", "chrF2|", "BLEU (tokenised)|", "BLEU (compound_split)|")
    for line, start in zip(str(score).splitlines(), starts, strict=True):
        assert line.startswith(start)
    assert list(score.conventions) == ["tokenised", "compound_split"]
    english = make_problem("translate_ende_rev").score(hypotheses, references)
    assert "tok:moses-en-" in str(english)
    assert "compound" not in str(make_problem("translate_enfr").score(hypotheses, references))
