"""The web page: its files, their routes, and its security policy."""

import functools
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from t2t_keras.io import pages

_FOLDER = Path(__file__).parent

# The page may load only its own files and ask only its own server, whatever the text contains.
# Only pages of the same server may show it in a frame.
SECURITY_POLICY = pages.security_policy(
    script_src="'self'", style_src="'self'", connect_src="'self'", frame_ancestors="'self'"
)

# Scripts and style sheets by name.
FILES = {
    path.name: path
    for path in (pages.FOLDER / "base.css", *_FOLDER.glob("*.css"), *_FOLDER.glob("*.js"))
}


@functools.cache
def index() -> str:
    """Returns the page's HTML."""
    return pages.render(_FOLDER, "index.html", title="Translate", policy="")


async def _index(request: Request) -> Response:
    return HTMLResponse(index())


def _file_route(path: Path) -> Route:
    """Returns the route of a file; a mount at "/" would turn 405 into 404 for other routes."""
    files = StaticFiles(directory=path.parent)

    async def page_file(request: Request) -> Response:
        return await files.get_response(path.name, request.scope)

    return Route(f"/{path.name}", page_file)


ROUTES = (Route("/", _index), *(_file_route(path) for path in FILES.values()))
