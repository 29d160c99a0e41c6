import pytest
from counted_work import work_of
from refusals import refused

from t2t_keras.bin import t2t_evalb
from t2t_keras.parsing.score import PARAMETERS, compare, evalb
from t2t_keras.parsing.trees import parsed

COLLINS, NEW = PARAMETERS["COLLINS"], PARAMETERS["new"]


@pytest.mark.parametrize("name", ["COLLINS", "new"])
def test_line_by_line_as_the_c_program(shared_data, name):
    names = ("gold.trees", "system.trees", f"expected.{name}.txt", "expected.COLLINS.stderr")
    gold, system, expected, expected_errors = (
        (shared_data / "evalb_fixtures" / name).read_text(encoding="utf-8").split("\n")[:-1]
        for name in names
    )
    errors = []
    lines = list(evalb(gold, system, PARAMETERS[name], errors.append))
    assert errors == expected_errors
    for line, of_c in zip(lines[1:501], expected[3:503], strict=True):
        # Number, length, status, recall, precision, and brackets that match, of gold and of test.
        assert line.split()[:8] == of_c.split()[:8]
        recall, precision, f1 = (float(line.split()[column]) for column in (3, 4, 8))
        assert f1 == pytest.approx(2 * recall * precision / max(recall + precision, 1), abs=0.01)
    summaries = lines[501:]
    assert len(summaries) == 20
    assert [line for line in expected[505:] if line in summaries] == summaries


@pytest.mark.parametrize(
    ("gold", "test", "matched", "of_gold", "of_test"),
    [
        # Functions are cut, adverb phrases are particles, punctuation does not count.
        ("(S (NP-SBJ-1 (NN a)))", "(S (NP=2 (NN a)))", 2, 2, 2),
        ("(S (ADVP (RB a)))", "(S (PRT (RP a)))", 2, 2, 2),
        ("(S (NP (NN a) (, ,)) (NN b))", "(S (NP (NN a)) (, ,) (NN b))", 2, 2, 2),
        ("(S (NP (, ,)) (NN a))", "(S (, ,) (NN a))", 1, 1, 1),
        ("(S (NP (-NONE- *)) (NN a))", "(S (NN a))", 1, 1, 1),
        ("(TOP (S (NN a)))", "(S (NN a))", 1, 1, 1),
        ("( (S (NN a)))", "(S (NN a))", 1, 2, 1),
        # A bracket matches once.
        ("(NP (NP (NN a)))", "(NP (NN a))", 1, 2, 1),
        ("(NP (NN a))", "(NP (NP (NN a)))", 1, 1, 2),
        ("(S (A (NN a) (NN b)) (NN c))", "(S (NN a) (A (NN b) (NN c)))", 1, 2, 2),
    ],
)
def test_what_counts(gold, test, matched, of_gold, of_test):
    actual, error = compare(parsed(gold), parsed(test), COLLINS)
    assert not error
    assert (actual.matched, actual.gold, actual.test) == (matched, of_gold, of_test)
    assert actual.complete == (matched == of_gold == of_test)


def test_new_parameters_delete_more_and_restore_misread_quotes():
    actual, _ = compare(parsed("(S1 (S (NN a) (! !)))"), parsed("(S (NN a) (! !))"), NEW)
    assert (actual.matched, actual.gold, actual.test, actual.words) == (1, 1, 1, 2)
    gold = parsed("(S (NP (NN a) (POS ')) (VP (VB b)))")
    test = parsed("(S (NP (NN a)) ('' ') (VP (VB b)))")
    assert compare(gold, test, COLLINS)[1] == "Length unmatch (3|2)"
    for pair in ((gold, test), (test, gold)):
        actual, error = compare(*pair, NEW)
        assert (error, actual.matched, actual.gold, actual.test) == ("", 2, 3, 3)


def test_misread_quotes_take_linear_work():
    def work(count):
        gold = parsed("(S (NN a) " + "('' ') " * count + ")")
        test = parsed("(S (NN a) " + "(POS ') " * count + ")")
        return work_of(lambda: compare(gold, test, NEW))

    assert work(400) < 2.2 * work(200)


def test_errors_and_skipped_sentences_are_in_no_sum():
    pairs = [
        ("(TOP (S (NP (NN a)) (VP (VB b))))", "(TOP (S (NP (NN a)) (VP (NN b))))"),
        ("(TOP (S (NN a)))", "(TOP (S (NN b)))"),
        ("(TOP (S (NN a)))", ""),
        ("(TOP (S (NN a)))", "(TOP (S (NN a) (NN b)))"),
        ("(TOP (S (NP (DT a) (NN b)) (NN c)))", "(TOP (S (DT a) (X (NN b) (NN c))))"),
        ("(S (NN a))", "(S (NN a)"),
        ("(S (NN a)", "(S (NN a))"),
    ]
    errors = []
    lines = list(evalb(*zip(*pairs, strict=True), COLLINS, errors.append))
    assert [error[:4] for error in errors] == ["2 : ", "4 : ", "6 : ", "7 : "]
    assert errors[:2] == ["2 : Words unmatch (a|b)", "4 : Length unmatch (1|2)"]
    assert [error.split()[3] for error in errors[2:]] == ["test", "gold"]
    assert [line.split()[1] for line in lines[1:8]] == ["2", "1", "1", "1", "3", "1", "0"]
    assert [line.split()[2] for line in lines[1:8]] == ["0", "1", "2", "1", "0", "1", "1"]
    values = [line.split()[-1] for line in lines[10:18]]
    assert values == ["7", "4", "1", "2", "80.00", "80.00", "80.00", "50.00"]


def test_it_gives_up_after_as_many_errors_as_the_c_program():
    trees = ["(S (NN a))"] * 13, ["(S (NN b))"] * 13
    errors = []
    with refused("too_many_errors", "--max_errors=10"):
        list(evalb(*trees, COLLINS, errors.append))
    assert len(errors) == 12
    assert len(list(evalb(*trees, COLLINS, errors.append, max_errors=12))) == 1 + 13 + 20


@pytest.mark.parametrize(("gold", "test", "longer"), [(2, 1, "gold"), (1, 3, "test")])
def test_different_numbers_of_lines(gold, test, longer):
    errors = []
    lines = list(evalb(["(S (NN a))"] * gold, ["(S (NN a))"] * test, COLLINS, errors.append))
    assert errors == [f"2 : Number of lines unmatch (too many lines in {longer} file)"]
    assert len(lines) == 1 + 1 + 20


def test_the_command_prints_table_and_errors(tmp_path, capsys):
    gold, test = tmp_path / "gold", tmp_path / "test"
    gold.write_text("(TOP (S (NP (NN a)) (VP (VB b))))\n(TOP (S (NN c)))\n")
    test.write_text("(TOP (S (NP (NN a)) (VB b)))\n(TOP (S (NN \x1bd)))\n")
    t2t_evalb.run(["t2t-evalb", f"--gold={gold}", f"--test={test}", "--param=new"])
    printed = capsys.readouterr()
    assert printed.err == "2 : Words unmatch (c|\\x1bd)\n"
    lines = printed.out.split("\n")
    assert lines[1].split() == ["1", "2", "0", "66.67", "100.00", "2", "3", "2", "80.00"]
    assert lines.count("Bracketing FMeasure       =  80.00") == 2
