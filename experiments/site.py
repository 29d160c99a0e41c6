"""Puts pages of experiments and of example models on the site of the documents: a hook of MkDocs.

Links are those between files: ../experiments/NAME/README.md here and there, ../../docs/PAGE.md.
"""

import re
from pathlib import Path

from mkdocs.structure.files import File

_ROOT = Path(__file__).resolve().parents[1]
_FOLDERS = ("experiments", "examples/models")
_TO_FOLDER = re.compile(rf"\]\(\.\./((?:\.\./)*(?:{'|'.join(_FOLDERS)})/)")


def on_files(files, config):
    """Adds the files."""
    for path in sorted(path for folder in _FOLDERS for path in _ROOT.glob(f"{folder}/**/*")):
        if path.suffix in (".md", ".svg"):
            name = path.relative_to(_ROOT).as_posix()
            urls = config.use_directory_urls
            files.append(File(name, str(_ROOT), config.site_dir, urls))
    return files


def on_page_markdown(markdown, **_):
    """Returns a page with links as the site has them: docs/ is its top."""
    return _TO_FOLDER.sub(r"](\1", markdown.replace("](../../docs/", "](../../"))
