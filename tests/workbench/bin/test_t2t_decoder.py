"""t2t-decoder with a stage of the workbench, by the file that is its flag."""

import re

import pytest

from t2t_keras.bin import t2t_decoder
from t2t_keras.decoding.translation import one_line
from t2t_keras.decoding.translator import Translator
from t2t_keras.workbench.terms.glossary import Glossary
from t2t_keras.workbench.terms.stage import with_terms

SETTINGS = "beam_size=2,extra_length=20"
SOURCES = ["A man eats.", "", "The dog sleeps in the red house.", "  ", "A house"]


def test_a_glossary(random_run, tmp_path, capsys, monkeypatch):
    def write(name, *lines):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def decode(*flags):
        run = f"--output_dir={random_run}", f"--decode_hparams={SETTINGS}"
        t2t_decoder.run(["t2t-decoder", *run, *flags])

    terms = write("terms.tsv", "man\tHund", "dog\tHaus", "cat\tKatze")
    source = f"--decode_from_file={write('in.txt', *SOURCES)}"
    decode(source, f"--glossary={terms}")
    name = "in.txt.transformer.transformer_tiny.parallel_text.terms.beam2.alpha0.6.decodes"
    translator = Translator.from_run(random_run, decode_hparams=SETTINGS)
    translations = with_terms(translator, Glossary.read(terms)).translate(SOURCES)
    translated = (tmp_path / name).read_text()
    assert translated == "".join(f"{one_line(translation.text)}\n" for translation in translations)
    printed = capsys.readouterr().out
    num_exact = sum(
        use.kind == "exact"
        for translation in translations
        for use in translation.notes.get("terms", ())
    )
    assert re.search(rf"\b2 in the source, {num_exact} exact", printed)
    monkeypatch.setattr(Translator, "from_stored", lambda *_: translator)  # It is compiled.
    output = f"--decode_to_file={tmp_path}/o"
    for number in (1, 2, 3):
        decode(source, f"--glossary={terms}", output, f"--shard={number}/3")
    parts = sorted(tmp_path.glob("o-*"))
    assert "".join(part.read_text() for part in parts) == translated
    broken = write("broken.tsv", "man\tHund", "dog")
    with pytest.raises(SystemExit):
        decode("--decode_interactive", f"--glossary={broken}")
    assert f"{broken}:2: " in capsys.readouterr().err
