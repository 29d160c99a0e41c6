from t2t_keras.bin import t2t_evalb


def test_table_and_errors(tmp_path, capsys):
    gold, test = tmp_path / "gold", tmp_path / "test"
    gold.write_text("(TOP (S (NP (NN a)) (VP (VB b))))\n(TOP (S (NN c)))\n")
    test.write_text("(TOP (S (NP (NN a)) (VB b)))\n(TOP (S (NN d)))\n")
    t2t_evalb.run(["t2t-evalb", f"--gold={gold}", f"--test={test}", "--param=new"])
    said = capsys.readouterr()
    assert said.err == "2 : Words unmatch (c|d)\n"
    lines = said.out.split("\n")
    assert lines[1].split() == ["1", "2", "0", "66.67", "100.00", "2", "3", "2", "80.00"]
    assert lines.count("Bracketing FMeasure       =  80.00") == 2
