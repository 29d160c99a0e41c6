"""The specification of this server's LibreTranslate API, in Swagger 2.0, at /spec."""

from typing import Any

import t2t_keras
from t2t_keras.workbench.server.endpoints import Call, Endpoint

_LANGUAGE = "Code of a language, as /languages lists them"
_KEY = ("api_key", "string", "Key, if the server requires one", False)
_TEXT = ("q", "string", "Text, or in JSON a list of texts", True)
_SOURCE = ("source", "string", f"{_LANGUAGE}, or auto", True)
_TARGET = ("target", "string", _LANGUAGE, True)
_FORMAT = ("format", "string", "text or html", False)
_ALTERNATIVES = ("alternatives", "integer", "Number of further translations", False)
_FILE = ("file", "file", "File to translate", True)

# By route and method: summary, parameters (name, type, description, required), error statuses.
_OPERATIONS: dict[tuple[str, str], tuple[str, tuple, tuple[int, ...]]] = {
    ("/translate", "post"): (
        "Translate text",
        (_TEXT, _SOURCE, _TARGET, _FORMAT, _ALTERNATIVES, _KEY),
        (400, 403, 413, 429, 500, 503),
    ),
    ("/detect", "post"): ("Detect the language of text", (_TEXT, _KEY), (400, 403, 413, 429)),
    ("/translate_file", "post"): (
        "Translate a file",
        (_FILE, _SOURCE, _TARGET, _KEY),
        (400, 403, 413, 429, 500, 503),
    ),
    ("/suggest", "post"): ("Suggestions, which this server refuses", (), (403,)),
    ("/languages", "get"): ("List the languages", (), ()),
    ("/frontend/settings", "get"): ("Settings for a page", (), ()),
    ("/health", "get"): ("Check that the server answers", (), ()),
}


async def spec(call: Call) -> dict[str, Any]:
    """Returns the specification."""
    return specification()


def specification() -> dict[str, Any]:
    """Returns the specification for JSON."""
    paths: dict[str, dict[str, Any]] = {}
    for (path, method), (summary, parameters, errors) in _OPERATIONS.items():
        operation: dict[str, Any] = {
            "summary": summary,
            "tags": ["translate"],
            "produces": ["application/json"],
            "parameters": [
                {"name": name, "in": "formData", "type": kind, "description": meaning}
                | {"required": is_needed}
                for name, kind, meaning, is_needed in parameters
            ],
            "responses": {"200": {"description": "Answer"}}
            | {str(status): {"description": "Error"} for status in errors},
        }
        if parameters:
            is_file = any(kind == "file" for _, kind, *_ in parameters)
            forms = ["multipart/form-data"], ["application/x-www-form-urlencoded"]
            operation["consumes"] = forms[0] if is_file else [*forms[1], *forms[0]]
        paths.setdefault(path, {})[method] = operation
    return {
        "swagger": "2.0",
        "info": {"title": "LibreTranslate", "version": t2t_keras.__version__},
        "basePath": "/",
        "paths": paths,
    }


ROUTES = (Endpoint("/spec", spec, ("GET",), is_open=True),)
