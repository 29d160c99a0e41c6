import pytest

from t2t_keras.decoding.files import translate_to_file
from t2t_keras.decoding.translator import Translation
from t2t_keras.errors import UserError


class Repeats:
    """Translates each line to itself; "|" is a line break."""

    def translate(self, lines, show_progress=False):
        return [Translation(line.replace("|", "\n"), 0.0) for line in lines]


def test_line_breaks_inside_translations_shift_nothing(tmp_path, capsys):
    path = tmp_path / "new" / "out.txt"
    lines = translate_to_file(Repeats(), ["a|b", "", "c\u2028d"], path)
    assert lines == ["a b", "", "c\u2028d"]
    assert path.read_bytes().decode("utf-8") == "a b\n\nc\u2028d\n"
    printed = capsys.readouterr().out
    assert "3 lines, 1 of them blank" in printed
    assert "1 translations held line breaks" in printed


def test_failure_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "out.txt"
    path.write_text("old\n")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match="No space left on device"):
        translate_to_file(Repeats(), ["new"], path)
    assert [each.name for each in tmp_path.iterdir()] == ["out.txt"]
    assert path.read_text() == "old\n"
