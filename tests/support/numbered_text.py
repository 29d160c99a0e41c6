"""Parallel text of numbered sentences, and what generated data contains."""

import pytest

from t2t_keras.data.problem import make_problem

SIZES = {"train": 230, "dev": 25, "test": 12}
WORDS = {"en": ("the", "house", "stands", "near"), "de": ("das", "Haus", "steht", "bei")}


@pytest.fixture
def tmp_dir(tmp_path):
    """Directory of train, dev and test files of 230, 25 and 12 pairs."""
    folder = tmp_path / "text"
    folder.mkdir()
    for split, size in SIZES.items():
        for language, words in WORDS.items():
            lines = (f"{' '.join(words)} {split} {n * n} {words[n % 4]}\n" for n in range(size))
            (folder / f"{split}.{language}").write_text("".join(lines))
    return folder


@pytest.fixture
def change(tmp_dir):
    """change(name, lines): replaces lines, bytes by number from 0, of a file in `tmp_dir`."""

    def change(name, lines):
        content = (tmp_dir / name).read_bytes().split(b"\n")
        for number, line in lines.items():
            content[number] = line
        (tmp_dir / name).write_bytes(b"\n".join(content))

    return change


@pytest.fixture
def problem():
    """The problem of the text in `tmp_dir`."""
    return make_problem("parallel_text", "source_language=en,target_language=de,vocab_size=330")


@pytest.fixture(scope="session")
def contents():
    """contents(directory): the content of each file by name, but for the lock."""

    def read(directory):
        paths = (path for path in directory.iterdir() if path.name != ".lock")
        return {path.name: path.read_bytes() for path in paths}

    return read
