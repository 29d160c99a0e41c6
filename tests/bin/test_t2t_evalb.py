import pytest

from t2t_keras.bin import t2t_evalb

GOLD = "(TOP (S (NP (NN a)) (VP (VB b))))\n(TOP (S (NN c)))\n"
TEST = "(TOP (S (NP (NN a)) (VB b)))\n(TOP (S (NN d)))\n"


@pytest.fixture
def flags(tmp_path):
    for name, text in (("gold", GOLD), ("test", TEST)):
        (tmp_path / name).write_text(text)
    return [f"--gold={tmp_path / 'gold'}", f"--test={tmp_path / 'test'}"]


def test_table_and_errors(flags, capsys):
    t2t_evalb.run(["t2t-evalb", *flags, "--param=new"])
    said = capsys.readouterr()
    assert said.err == "2 : Words unmatch (c|d)\n"
    lines = said.out.split("\n")
    assert lines[1].split() == ["1", "2", "0", "66.67", "100.00", "2", "3", "2", "80.00"]
    assert lines.count("Bracketing FMeasure       =  80.00") == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("--param=other", "COLLINS"),
        ("--gold=nowhere", "nowhere cannot be read"),
        ("--test=", "--test"),
    ],
)
def test_errors_are_one_message(flags, refused, change, message):
    assert message in refused("t2t-evalb", *flags, change)
