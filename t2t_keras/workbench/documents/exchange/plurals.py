"""The plural forms of gettext: how many a language has, and which of them is for one thing only."""

import gettext
import re
from typing import NamedTuple

# "one" and "other", as in English; the same with 0 as in French; none at all; and the Slavic ones.
_TWO = "nplurals=2; plural=(n != 1);"
_FEW = "n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2"
_RULES = {
    _TWO: "af bg bn ca da de el en eo es et eu fi fy gl gu he hi hu ia it kn ku lb ml mn mr nb ne "
    "nl nn no pa pt rm si sq sv sw ta te ur yi",
    "nplurals=2; plural=(n > 1);": "am br fa fil fr hy ln mg mi oc pt_br ti tr uz wa",
    "nplurals=1; plural=0;": "ay bo id ja ka kk km ko ky lo ms my su th tt ug vi wo zh",
    f"nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : {_FEW});": "be bs hr ru sr uk",
    f"nplurals=3; plural=(n==1 ? 0 : {_FEW});": "pl",
    "nplurals=3; plural=(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2);": "cs sk",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);": (
        "lt"
    ),
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);": "lv",
    "nplurals=3; plural=(n==1 ? 0 : n==0 || (n%100>0 && n%100<20) ? 1 : 2);": "ro",
    "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);": "sl",
    "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : "
    "n%100>=11 ? 4 : 5);": "ar",
}
_BY_LANGUAGE = {language: rule for rule, names in _RULES.items() for language in names.split()}
_HEADER = re.compile(r"\s*nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=\s*([^;]{1,1000});?\s*")
# More than any rule needs to show all it does.
_NUMBERS = range(201)


class PluralForms(NamedTuple):
    """How many forms there are, and which of them stand for the number 1 and no other."""

    count: int
    only_one: frozenset[int]


def plural_forms(header: str) -> PluralForms | None:
    """Returns what a Plural-Forms header says; None where it cannot be used."""
    if not (match := _HEADER.fullmatch(header)):
        return None
    count = int(match[1])
    try:
        form = gettext.c2py(match[2])
        forms = [form(number) for number in _NUMBERS]
    except (ValueError, ZeroDivisionError, RecursionError):
        return None
    if not count or not all(0 <= form < count for form in forms):
        return None
    others = {form for number, form in enumerate(forms) if number != 1}
    return PluralForms(count, frozenset({forms[1]} - others))


def default_header(language: str) -> str:
    """Returns the Plural-Forms header of a language, "" where it is not known."""
    language = language.lower().replace("-", "_")
    return _BY_LANGUAGE.get(language) or _BY_LANGUAGE.get(language.partition("_")[0], "")
