"""Language codes, names, matching of variants, and detection."""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from t2t_keras.data.filters import language_identifier
from t2t_keras.errors import UserError
from t2t_keras.text.files import normalized
from t2t_keras.text.formats import main_language
from t2t_keras.workbench.markup.reading import read_fragment

Served = TypeVar("Served")

# py3langid reads character by character; more text takes longer and adds little.
_MAX_DETECTION_CHARACTERS = 1_000

_NAMES = dict(
    entry.split(":")
    for entry in (
        "af:Afrikaans|am:Amharic|ar:Arabic|as:Assamese|az:Azerbaijani|be:Belarusian|bg:Bulgarian|"
        "bn:Bengali|br:Breton|bs:Bosnian|ca:Catalan|cs:Czech|cy:Welsh|da:Danish|de:German|"
        "dsb:Lower Sorbian|el:Greek|en:English|en-GB:English (British)|en-US:English (American)|"
        "eo:Esperanto|es:Spanish|es-419:Spanish (Latin American)|et:Estonian|eu:Basque|fa:Persian|"
        "fi:Finnish|fo:Faroese|fr:French|fy:Western Frisian|ga:Irish|gd:Scottish Gaelic|"
        "gl:Galician|gu:Gujarati|ha:Hausa|he:Hebrew|hi:Hindi|hr:Croatian|hsb:Upper Sorbian|"
        "ht:Haitian Creole|hu:Hungarian|hy:Armenian|id:Indonesian|ig:Igbo|is:Icelandic|it:Italian|"
        "ja:Japanese|jv:Javanese|ka:Georgian|kab:Kabyle|kk:Kazakh|km:Khmer|kn:Kannada|ko:Korean|"
        "ku:Kurdish|ky:Kyrgyz|la:Latin|lb:Luxembourgish|lo:Lao|lt:Lithuanian|lv:Latvian|"
        "mg:Malagasy|mk:Macedonian|ml:Malayalam|mn:Mongolian|mr:Marathi|ms:Malay|mt:Maltese|"
        "my:Burmese|nb:Norwegian Bokmål|nds:Low German|ne:Nepali|nl:Dutch|nn:Norwegian Nynorsk|"
        "no:Norwegian|oc:Occitan|or:Odia|pa:Punjabi|pl:Polish|ps:Pashto|pt:Portuguese|"
        "pt-BR:Portuguese (Brazilian)|pt-PT:Portuguese (European)|qu:Quechua|ro:Romanian|"
        "ru:Russian|rw:Kinyarwanda|sd:Sindhi|si:Sinhala|sk:Slovak|sl:Slovenian|so:Somali|"
        "sq:Albanian|sr:Serbian|sv:Swedish|sw:Swahili|ta:Tamil|te:Telugu|tg:Tajik|th:Thai|"
        "tk:Turkmen|tl:Tagalog|tr:Turkish|tt:Tatar|ug:Uyghur|uk:Ukrainian|ur:Urdu|uz:Uzbek|"
        "vi:Vietnamese|xh:Xhosa|yi:Yiddish|yo:Yoruba|zh:Chinese|zh-Hans:Chinese (simplified)|"
        "zh-Hant:Chinese (traditional)|zu:Zulu"
    ).split("|")
)

# LibreTranslate's own codes, and deprecated codes of BCP 47.
_ALIASES = {"pb": "pt-BR", "zt": "zh-Hant", "iw": "he", "in": "id", "ji": "yi", "jw": "jv"}
_ALIASES |= {"mo": "ro", "sh": "sr-Latn", "cmn": "zh", "fil": "tl"}
# Default scripts of languages by region; "" = all regions that are not listed.
_SCRIPTS = {
    "zh": {"": "Hans", "TW": "Hant", "HK": "Hant", "MO": "Hant"},
    "sr": {"": "Cyrl", "ME": "Latn"},
    "pa": {"": "Guru", "PK": "Arab"},
}
_MACROLANGUAGES = {"no": "nb"}  # Interchangeable codes.

_CODE = r"[a-z]{2,3}(?:-(?:[A-Z][a-z]{3}|[A-Z]{2}|\d{3}))*"
_PAIR = re.compile(f"({_CODE})-({_CODE})")


def language_name(code: str) -> str:
    """Returns a language's English name; for an unknown variant, "name (variant)"."""
    base, _, variant = code.partition("-")
    name = _NAMES.get(base, base)
    return _NAMES.get(code) or (f"{name} ({variant})" if variant else name)


def canonical_code(code: str) -> str:
    """Returns a code in the form of BCP 47: de, pt-BR, zh-Hans, es-419."""
    base, *parts = code.strip().replace("_", "-").lower().split("-")
    parts = [part.title() if len(part) == 4 else part.upper() for part in parts]
    return "-".join([_ALIASES.get(base, base), *parts])


def parse_pair(text: str) -> tuple[str, str]:
    """Splits a pair of languages, such as en-de or en-pt-BR, into source and target.

    Raises:
      UserError: the text is not a pair of language codes.
    """
    if not (match := _PAIR.fullmatch(text)) or match[1] == match[2]:
        raise UserError(
            f"Expected a pair of languages, as en-de or en-pt-BR, got {text!r}. Write countries "
            f"in capitals.",
            code="bad_value",
        )
    return match[1], match[2]


def nearest_code(requested: str, known: Iterable[str]) -> str:
    """Returns the known code that matches best; "" = none.

    Prefers the code itself, then a code of the same script (zh-Hans for zh-CN), then the language
    without variant. A language without variant matches any variant, preferably the first.
    """
    return next(iter(_near_codes(requested, known)), "")


def _near_codes(requested: str, known: Iterable[str]) -> list[str]:
    distances = {code: _distance(canonical_code(requested), canonical_code(code)) for code in known}
    candidates = [(distance, code) for code, distance in distances.items() if distance is not None]
    return [code for _, code in sorted(candidates)]


def _distance(requested: str, code: str) -> int | None:
    """Returns the distance of a code from a requested one; None = they do not match."""
    if code == requested:
        return 0
    requested_subtags, served = _subtags(requested), _subtags(code)
    if served.language != requested_subtags.language:
        return None
    if main_language(code) == code:
        return 2
    if served.script == requested_subtags.script:
        if (
            not (served.region and requested_subtags.region)
            or served.region == requested_subtags.region
        ):
            return 1
        if requested_subtags.script:
            return 3  # A region matters only because it implies a script.
    return 4 if main_language(requested) == requested else None


class _Subtags(NamedTuple):
    language: str
    script: str  # "" = the language has only one
    region: str


def _subtags(code: str) -> _Subtags:
    language, *parts = code.split("-")
    scripts = _SCRIPTS.get(language, {"": ""})
    scripts_in_code = [part for part in parts if len(part) == 4 and part.isalpha()]
    region = next((part for part in parts if part not in scripts_in_code), "")
    script = scripts_in_code[0] if scripts_in_code else scripts.get(region, scripts[""])
    return _Subtags(_MACROLANGUAGES.get(language, language), script, region)


def nearest_pair(
    source: str, target: str, served: Mapping[tuple[str, str], Served]
) -> tuple[str, str] | None:
    """Returns the served pair that matches best; None = no pair matches."""
    for code in _near_codes(source, {pair[0] for pair in served}):
        if nearest := nearest_code(target, {pair[1] for pair in served if pair[0] == code}):
            return code, nearest
    return None


class DetectedLanguage(NamedTuple):
    """A possible language of a text.

    Attributes:
      language: its code.
      confidence: probability among the server's languages, 0 to 1; 0 = no evidence.
    """

    language: str
    confidence: float


def detect(
    texts: Sequence[str],
    languages: Iterable[str],
    format: str = "text",  # noqa: A002
) -> list[DetectedLanguage]:
    """Returns the possible languages of texts, most likely first.

    Args:
      texts: texts in one language.
      languages: the candidates, at least one.
      format: "text"; or "html" or "xml", whose markup is ignored.

    Raises:
      UserError: py3langid is not installed, and there are several languages.
    """
    codes = sorted(languages)
    text = " ".join(_visible_texts(texts, format))[:_MAX_DETECTION_CHARACTERS]
    if len(codes) == 1:
        return [DetectedLanguage(codes[0], 1.0 if any(map(str.isalpha, text)) else 0.0)]
    if not any(map(str.isalpha, text)):
        return [DetectedLanguage("en" if "en" in codes else codes[0], 0.0)]
    labels = {code: _langid_label(code) for code in codes}
    identifier = language_identifier("Detecting languages", frozenset(labels.values()))
    probabilities = dict(identifier.rank(text))
    ranked = [
        DetectedLanguage(code, float(probabilities.get(label, 0.0)))
        for code, label in labels.items()
    ]
    return sorted(ranked, key=lambda detected: -detected.confidence)


def _visible_texts(texts: Sequence[str], format: str) -> Iterator[str]:  # noqa: A002
    """Yields as much visible text as detection needs."""
    num_characters = 0
    for text in texts:
        segments = [text]
        if format != "text":
            with contextlib.suppress(UserError):  # The translation raises it.
                segments = [segment.text for segment in read_fragment(text, format).segments]
        for segment in segments:
            yield normalized(segment)
            num_characters += len(segment)
        if num_characters > _MAX_DETECTION_CHARACTERS:
            return


def _langid_label(code: str) -> str:
    """Returns py3langid's code for a language."""
    base = main_language(code)
    return "no" if base == "nb" else base
