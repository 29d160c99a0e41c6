"""DeepL's API for text, as https://developers.deepl.com/docs describes it."""

import contextlib
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request

from t2t_keras.workbench.server.apis.deepl_glossaries import requested_glossary
from t2t_keras.workbench.server.context import Context
from t2t_keras.workbench.server.languages import canonical, language_name
from t2t_keras.workbench.server.messages import ApiError, Parameters, read_parameters
from t2t_keras.workbench.server.service import Options, Pair, Splitting
from t2t_keras.workbench.terms.glossary import Glossary

# What its clients do not take as a target, and take instead.
_TARGET_VARIANTS = {"en": ("en-GB", "en-US"), "pt": ("pt-PT", "pt-BR")}

_SPLITTING = {
    "0": Splitting(lines=False, sentences=False),
    "1": Splitting(),
    "nonewlines": Splitting(lines=False),
}
_FORMALITIES = ("default", "less", "more", "prefer_less", "prefer_more")
_MODEL_TYPES = {
    "quality_optimized": "quality_optimized",
    "prefer_quality_optimized": "quality_optimized",
    "latency_optimized": "latency_optimized",
}
# What would change a translation, and cannot here.
_REFUSED = ("style_id", "translation_memory_id", "custom_instructions")
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_UNLIMITED = 1_000_000_000_000  # What DeepL says of an account without a limit.


def make_router(context: Context) -> APIRouter:
    """Returns the routes of the API, but those of glossaries and documents."""
    router = APIRouter()

    @router.post("/v2/translate")
    async def translate(request: Request) -> dict[str, Any]:
        return await _translate(context, request)

    @router.api_route("/v2/languages", methods=["GET", "POST"])
    async def languages(request: Request) -> list[dict[str, Any]]:
        parameters = await read_parameters(request)
        context.admit(request, parameters)
        kind = parameters.choice("type", ("source", "target"), "source")
        return _languages(context, kind)

    @router.api_route("/v2/usage", methods=["GET", "POST"])
    async def usage(request: Request) -> dict[str, int]:
        client = context.admit(request, await read_parameters(request))
        return {
            "character_count": context.access.characters(client),
            "character_limit": client.key.characters_per_month or _UNLIMITED,
        }

    for name in ("style_rules", "translation_memories"):
        _add_empty_list(router, context, name)
    return router


def make_last_router() -> APIRouter:
    """Returns the route for unsupported endpoints; it must come last."""
    router = APIRouter()

    @router.api_route("/v2/{rest:path}", methods=_METHODS)
    @router.api_route("/v3/{rest:path}", methods=_METHODS)
    async def missing(rest: str) -> None:
        raise ApiError(
            404,
            "Endpoint not supported: this server translates text and documents, and has languages, "
            "usage and glossaries.",
        )

    return router


def _add_empty_list(router: APIRouter, context: Context, name: str) -> None:
    @router.get(f"/v3/{name}")
    async def nothing(request: Request) -> dict[str, Any]:
        context.admit(request, await read_parameters(request))
        return {name: []}


async def _translate(context: Context, request: Request) -> dict[str, Any]:
    parameters = await read_parameters(request)
    client = context.admit(request, parameters)
    if not (texts := parameters.texts("text")):
        raise ApiError(400, "Parameter 'text' not specified.")
    context.check_size(texts)
    check_options(parameters)
    kind = parameters.choice("tag_handling", ("html", "xml"), "text")
    splitting = parameters.choice("split_sentences", tuple(_SPLITTING), "1")
    pairs = await _read_pairs(context, parameters, texts, kind)
    # With one, the source is not detected: all pairs are the same.
    glossary = await requested_glossary(context, client, parameters, pairs[0])
    options = _options(parameters, kind, glossary)
    found = await context.translate(request, client, pairs, texts, options, _SPLITTING[splitting])
    model = parameters.text("model_type")
    shared = {"model_type_used": _MODEL_TYPES[model]} if model else {}
    billed = parameters.switch("show_billed_characters")
    return {
        "translations": [
            {"detected_source_language": source.partition("-")[0].upper(), "text": each.text}
            | ({"billed_characters": len(text)} if billed else {})
            | shared
            for (source, _), text, each in zip(pairs, texts, found, strict=True)
        ]
    }


async def _read_pairs(
    context: Context, parameters: Parameters, texts: Sequence[str], kind: str
) -> list[Pair]:
    """Returns the pair of each text; if its language has no model, the pair of all together."""
    shared = await read_pair(context, parameters, texts, kind)
    pairs = [shared] * len(texts)
    if not parameters.text("source_lang") and len(texts) > 1:
        for number, text in enumerate(texts):
            with contextlib.suppress(ApiError):
                pairs[number] = await read_pair(context, parameters, [text], kind)
    return pairs


def _options(parameters: Parameters, kind: str, glossary: Glossary | None) -> Options:
    """Returns how a text is translated: of markup, which elements stay and which divide it."""
    if kind == "text":
        return Options(kind, glossary)
    ignored, splitting, others = (
        {tag.strip() for text in parameters.texts(name) for tag in text.split(",") if tag.strip()}
        for name in ("ignore_tags", "splitting_tags", "non_splitting_tags")
    )
    outline = kind == "xml" and parameters.switch("outline_detection", True)
    return Options(
        kind,
        glossary,
        keep=tuple(sorted(ignored)),
        blocks=tuple(sorted(splitting - others)),
        outline=outline,
        inline=tuple(sorted(others)) if outline else (),
    )


def check_options(parameters: Parameters) -> None:
    """Raises `ApiError` for values that DeepL has not, and for what no model here can do."""
    for name in ("preserve_formatting", "outline_detection", "show_billed_characters"):
        parameters.switch(name)
    parameters.choice("tag_handling_version", ("v1", "v2"))
    parameters.choice("model_type", tuple(_MODEL_TYPES))
    if parameters.choice("formality", _FORMALITIES, "default") in ("less", "more"):
        raise ApiError(400, "'formality' is not supported for given 'target_lang'.")
    for name in _REFUSED:
        if parameters.any(name):
            raise ApiError(400, f"'{name}' is not supported by this server.")


async def read_pair(
    context: Context, parameters: Parameters, texts: Sequence[str], kind: str
) -> Pair:
    """Returns the language pair of a request for texts of a format; a missing source is detected.

    For a text already in the target language it is that language twice, see `Context.pair`.

    Raises:
      ApiError: there is no model for them.
    """
    target, source = parameters.text("target_lang"), parameters.text("source_lang")
    if not target:
        raise ApiError(400, "Value for 'target_lang' not supported.")
    if not source:
        source = (await context.detect_source(texts, target, kind)).language
    try:
        return context.pair(canonical(source), canonical(target), may_be_same=True)
    except ApiError as error:
        known = {code for _, code in context.service.models}
        wrong = "source_lang" if context.serves(canonical(target), known) else "target_lang"
        raise ApiError(400, f"Value for '{wrong}' not supported.", detail=error.message) from error


def _languages(context: Context, kind: str) -> list[dict[str, Any]]:
    models = context.service.models
    if kind == "source":
        # Without variants: no client sends them.
        codes = {source.partition("-")[0] for source, _ in models}
        return [{"language": code.upper(), "name": language_name(code)} for code in sorted(codes)]
    codes = {code for _, target in models for code in _TARGET_VARIANTS.get(target, (target,))}
    return [
        {"language": code.upper(), "name": language_name(code), "supports_formality": False}
        for code in sorted(codes)
    ]
