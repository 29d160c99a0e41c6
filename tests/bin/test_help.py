"""What --help and --helpfull show."""

import importlib

import pytest

COMMANDS = (
    "avg_all bleu datagen decoder eval evalb exporter insights npz_to_checkpoint query_server "
    "tables trainer translate_all"
).split()


def output(name, flag, capsys):
    importlib.import_module(f"t2t_keras.bin.t2t_{name}").run([f"t2t-{name}", flag])
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_screen(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    lines = output(name, "--help", capsys).splitlines()
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("name", COMMANDS)
def test_helpfull_has_every_flag(name, capsys):
    shown = output(name, "--helpfull", capsys)
    for flag in ("--t2t_usr_dir", "--registry_help", "--random_seed", "--problem", "--output_dir"):
        assert shown.count(f"  {flag} ") == 1


def test_defaults_and_groups(capsys):
    shown = output("trainer", "--help", capsys)
    assert "\nSchedule:\n" in shown
    assert "[600]" in shown
    assert "--undefok" not in shown


def test_helpfull_lists_the_decoding_settings(capsys):
    assert "beam_size" not in output("decoder", "--help", capsys)
    assert "beam_size" in output("decoder", "--helpfull", capsys)
