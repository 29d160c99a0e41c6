"""Plural forms of gettext."""

import gettext

import pytest

from t2t_keras.workbench.documents.exchange.po import default_header, plural_forms


@pytest.mark.parametrize(
    ("language", "count", "only_one"),
    [
        ("de", 2, {0}),
        ("fr", 2, set()),
        ("pt", 2, {0}),
        ("pt_BR", 2, set()),
        ("pt-BR", 2, set()),
        ("ja", 1, set()),
        ("zh-Hans", 1, set()),
        ("ru", 3, set()),
        ("pl", 3, {0}),
        ("cs_CZ", 3, {0}),
        ("sl", 4, set()),
        ("ar", 6, {1}),
        ("xx", 0, None),
    ],
)
def test_languages(language, count, only_one):
    forms = plural_forms(default_header(language))
    assert forms == (None if not count else (count, only_one))


@pytest.mark.parametrize(
    ("language", "forms"),
    [
        ("DE", [1, 0, 1, 1, 1]),
        ("fr", [0, 0, 1, 1, 1]),
        ("ko", [0, 0, 0, 0, 0]),
        ("hr", [2, 0, 1, 2, 0]),
        ("pl", [2, 0, 1, 2, 2]),
        ("sk", [2, 0, 1, 2, 2]),
        ("sl", [3, 0, 1, 3, 3]),
        ("ar", [0, 1, 2, 3, 4]),
        ("lt", [2, 0, 1, 1, 0]),
        ("lv", [2, 0, 1, 1, 0]),
        ("ro", [1, 0, 1, 1, 2]),
        ("uk", [2, 0, 1, 2, 0]),
    ],
)
def test_rules_for_0_1_2_5_and_21(language, forms):
    rule = default_header(language).partition("plural=")[2].partition("plural=")
    rule = (rule[2] or rule[0]).rstrip(";")
    assert list(map(gettext.c2py(rule), (0, 1, 2, 5, 21))) == forms


def test_a_header_may_lack_its_last_sign_and_have_spaces():
    assert plural_forms(" nplurals = 2 ; plural = n != 1 ") == (2, {0})


@pytest.mark.parametrize(
    "header",
    [
        "",
        "nplurals=INTEGER; plural=EXPRESSION;",
        "nplurals=2; plural=n/0;",
        "nplurals=2; plural=n;",
        "nplurals=1; plural=(n != 1);",
        "nplurals=0; plural=0;",
        "nplurals=2; plural=__import__('os');",
        "nplurals=2; plural=" + "(" * 900 + "n" + ")" * 90 + ";",
    ],
)
def test_headers_that_say_nothing_are_not_used(header):
    assert plural_forms(header) is None
