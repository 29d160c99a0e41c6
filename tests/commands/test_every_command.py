"""What all commands share: help, and errors as one message with an exit status."""

import errno

import pytest
from commands import module_of, modules_of_commands

import t2t_keras
from t2t_keras.bin.flags import run_command
from t2t_keras.errors import UserError

COMMON = ("--t2t_usr_dir", "--registry_help", "--version")


@pytest.mark.parametrize("command", modules_of_commands())
def test_help_fits_a_screen_and_helpfull_has_every_flag(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    run = module_of(command).run
    run([command, "--help"])
    shown = capsys.readouterr().out
    run([command, "-h"])
    assert capsys.readouterr().out == shown
    lines = shown.splitlines()
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 100
    run([command, "--helpfull"])
    shown = capsys.readouterr().out
    assert [shown.count(f"  {flag} ") for flag in COMMON] == [1] * len(COMMON)
    # The settings that --decode_hparams takes.
    assert "beam_size" in shown or "--decode_hparams" not in shown


def test_the_version_is_that_of_the_package(capsys):
    run_command(lambda flags: None, lambda flags: print("ran"), ["t2t-x", "--version"])
    assert capsys.readouterr().out == f"t2t_keras {t2t_keras.__version__}\n"


def test_characters_that_cannot_be_shown_are_escaped(capsys):
    run_command(lambda flags: None, lambda flags: print("\udcff"), ["t2t-x"])
    assert capsys.readouterr().out == "\\udcff\n"


@pytest.mark.parametrize(
    ("error", "status", "names"),
    [
        (UserError("no \x1b[2J"), 2, [r" no \x1b[2J"]),
        (UserError("lost", 75), 75, [" lost"]),
        (KeyboardInterrupt(), 130, []),
        (ModuleNotFoundError(name="jax"), 2, [" jax,", "KERAS_BACKEND"]),
        (PermissionError(13, "No entry", "/x"), 2, [" /x: No entry."]),
        *(
            (OSError(code, "No room"), 2, ["No room."])
            for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        ),
    ],
)
def test_an_error_is_one_message(capfd, error, status, names):
    def main(flags):
        raise error

    with pytest.raises(SystemExit) as stop:
        run_command(lambda flags: None, main, ["t2t-x"])
    assert stop.value.code == status
    assert stop.value.__cause__ is (error if isinstance(error, UserError) else None)
    message = capfd.readouterr().err.strip()
    assert message.startswith("t2t-x: ")
    assert message.count("\n") == 0
    assert not [name for name in names if name not in message]


@pytest.mark.parametrize("flag", ["--help", "--output_dir=run"])
def test_a_package_that_cannot_be_imported_is_one_message(installed, refused, flag):
    installed("tea_shop", "t2t_keras.line_stage_flags", "import no_such", "tea_file")
    refused("import_failed 'tea_file' tea_shop 'no_such'", "t2t-decoder", flag)


def test_a_reader_that_has_gone_is_told_nothing(capfd):
    def main(flags):
        raise BrokenPipeError

    with pytest.raises(SystemExit) as stop:
        run_command(lambda flags: None, main, ["t2t-x"])
    assert (stop.value.code, capfd.readouterr().err) == (141, "")


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError(name="t2t_keras.x"), ModuleNotFoundError(), OSError(1, "what")]
)
def test_a_fault_of_ours_has_a_traceback(error):
    def main(flags):
        raise error

    with pytest.raises(type(error)):
        run_command(lambda flags: None, main, ["t2t-x"])
