import functools
import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import sacrebleu

from t2t_keras.bin import t2t_decoder
from t2t_keras.data.generated import open_generated
from t2t_keras.decoding.resumable_output import ResumableOutputs
from t2t_keras.decoding.translator import Translator
from t2t_keras.decoding.typed import translate_typed
from t2t_keras.tables.results import read_results
from t2t_keras.training.run_record import RunRecord

FAST = "beam_size=2,extra_length=2"


def decode(*arguments):
    t2t_decoder.run(["t2t-decoder", f"--decode_hparams={FAST}", *map(str, arguments)])


@pytest.fixture
def text(random_run):
    """text(split): sources and references."""
    record = RunRecord.load(random_run)
    return open_generated(record.problem, record.data_dir).text


@functools.cache
def newest_translator(run):
    return Translator.from_run(run, decode_hparams=FAST)


def expected_lines(run, sources, **options):
    if options:
        translator = Translator.from_run(run, decode_hparams=FAST, **options)
    else:
        translator = newest_translator(run)
    return [translation.text for translation in translator.translate(sources)]


def test_file_with_blank_lines_and_reference(random_run, tmp_path, capsys):
    source, target, reference = (tmp_path / name for name in ("in.txt", "out/new/o.txt", "r.txt"))
    sources = ["A man eats.", "", "The dog sleeps in the red house.", "  ", "A house"]
    source.write_text("".join(f"{line}\n" for line in sources))
    reference.write_text("Ein Mann isst.\n\nDer Hund schläft im roten Haus.\n\nEin Haus\n")
    decode(
        f"--output_dir={random_run}",
        f"--decode_from_file={source}",
        f"--decode_to_file={target}",
        f"--decode_reference={reference}",
    )
    lines = target.read_text().split("\n")
    assert lines == [*expected_lines(random_run, sources), ""]
    assert (lines[1], lines[3]) == ("", "")
    assert len(set(lines)) == 4
    printed = capsys.readouterr().out
    assert f"{target}: 5 lines, 2 of them blank" in printed
    references = reference.read_text().split("\n")[:-1]
    score = sacrebleu.corpus_bleu(lines[:-1], [references], tokenize="13a").score
    assert re.search(rf"BLEU\|nrefs:1\|\S*tok:13a\S* = {score:.2f} ", printed)


def test_default_name_and_checkpoint(random_run, tmp_path):
    source = tmp_path / "in.txt"
    source.write_text("A man\nThe dog sleeps.\n")
    checkpoint = random_run / "model.ckpt-10"
    decode(
        f"--output_dir={random_run}",
        f"--decode_from_file={source}",
        f"--checkpoint_path={checkpoint}.index",
    )
    name = "in.txt.transformer.transformer_tiny.parallel_text"
    lines = (tmp_path / f"{name}.beam2.alpha0.6.decodes").read_text().splitlines()
    sources = source.read_text().splitlines()
    assert lines == expected_lines(random_run, sources, checkpoint_path=checkpoint)
    assert lines != expected_lines(random_run, sources)


@pytest.mark.parametrize("flags", [[], ["--eval_use_test_set"]])
def test_dev_and_test_set(random_run, text, tmp_path, capsys, flags):
    split = "test" if flags else "dev"
    sources, references = text(split)
    decode(f"--output_dir={random_run}", f"--decode_to_file={tmp_path / 'out'}", *flags)
    lines = (tmp_path / "out").read_text().split("\n")[:-1]
    assert lines == expected_lines(random_run, sources)
    score = sacrebleu.corpus_bleu(lines, [references], tokenize="13a").score
    assert f" = {score:.2f} " in capsys.readouterr().out


def test_results_are_added(random_run, text, tmp_path, capsys):
    cost = {"target_tokens": 5, "seconds": 1.5, "hardware": "a CPU"}
    (random_run / "training_cost.json").write_text(json.dumps({"30": cost}))
    results = tmp_path / "results.jsonl"
    run = [f"--output_dir={random_run}", f"--decode_to_file={tmp_path / 'out'}"]
    decode(*run, f"--results_file={results}")
    source, reference = (tmp_path / name for name in ("news.en", "news.de"))
    source.write_text("A man\n")
    reference.write_text("Ein Mann\n")
    begins = tmp_path / "begins"
    begins.write_text("Ein\n")
    from_file = [f"--decode_from_file={source}", f"--decode_reference={reference}"]
    from_file.append(f"--prefix_file={begins}")
    earlier = f"--checkpoint_path={random_run / 'model.ckpt-10'}"
    decode(*run, *from_file, earlier, f"--results_file={results}")
    (random_run / "training_cost.json").unlink()
    assert f"The score is in {results}." in capsys.readouterr().out
    first, second = read_results(results)
    assert (first.split, first.steps, first.target_tokens, first.seconds) == ("dev", 30, 5, 1.5)
    assert (second.split, second.steps, second.target_tokens) == ("news.en", 10, None)
    assert (first.set, first.problem) == ("transformer_tiny", "parallel_text")
    assert first.hparams == {"num_layers": 1, "d_model": 16, "d_ff": 16, "num_heads": 2}
    assert (first.decode["beam_size"], first.decode["alpha"]) == (2, 0.6)
    # These tell a score that is not the model's alone.
    alone = {"ensemble": [], "forbidden": "", "prefixes": ""}
    assert {name: first.decode[name] for name in alone} == alone
    assert second.decode["prefixes"] == str(begins)
    assert first.checkpoint != second.checkpoint
    sources, references = text("dev")
    lines = expected_lines(random_run, sources)
    score = sacrebleu.corpus_bleu(lines, [references], tokenize="13a").score
    assert first.bleu == pytest.approx(score, abs=0.001)
    assert "tok:13a" in first.bleu_signature


def test_a_results_file_that_cannot_be_written_costs_no_translation(random_run, tmp_path, capsys):
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as caught:
        decode(f"--output_dir={random_run}", f"--decode_to_file={out}", "--results_file=/dev/full")
    assert caught.value.code == 2
    assert len(out.read_text().splitlines()) == 3
    printed = capsys.readouterr()
    assert "tok:13a" in printed.out
    assert "The translations and the score are complete, but:" in printed.err
    assert "cannot be added to /dev/full: No space" in printed.err


def test_what_else_a_file_can_be_given(random_run, tmp_path, capsys):
    source, output, prefixes, forbidden, alignments, attention = (
        tmp_path / name
        for name in ("in.txt", "out.txt", "begins.txt", "not.txt", "aligned.txt", "attention")
    )
    sources = ["A man", "", "The dog sleeps."]
    source.write_text("".join(f"{line}\n" for line in sources))
    plain = expected_lines(random_run, sources)
    prefixes.write_text("\n\nDer Hund\n")
    forbidden.write_text(f"{plain[0].split()[0]}\n")
    decode(
        f"--output_dir={random_run}",
        f"--decode_from_file={source}",
        f"--decode_to_file={output}",
        f"--prefix_file={prefixes}",
        f"--forbidden_file={forbidden}",
        f"--alignment_file={alignments}",
        f"--attention_file={attention}",
    )
    lines = output.read_text().split("\n")
    assert plain[0].split()[0] not in lines[0].split()
    assert lines[1] == ""
    assert lines[2].startswith("Der Hund")
    for line, aligned in zip(lines, alignments.read_text().split("\n"), strict=True):
        pairs = [pair.split("-") for pair in aligned.split()]
        assert [int(target) for _, target in pairs] == list(range(len(pairs)))
        assert bool(pairs) == bool(line)
    weights = newest_translator(random_run).attention(sources, lines[:-1])
    with attention.open("rb") as file:
        for expected in weights:
            pieces = [tuple(np.load(file)) for _ in range(2)]
            assert pieces == [expected.source, expected.target]
            for kind in ("encoder", "decoder", "cross"):
                np.testing.assert_allclose(np.load(file), getattr(expected, kind), atol=1e-5)
        assert not file.read()


def test_from_standard_input_to_standard_output(random_run, monkeypatch, capsys):
    sources = ["A man", "", "The dog sleeps."]
    given = io.BytesIO("".join(f"{line}\n" for line in sources).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(given))
    decode(f"--output_dir={random_run}", "--decode_from_file=-")
    printed = capsys.readouterr()
    assert printed.out.split("\n")[:-1] == expected_lines(random_run, sources)
    assert "-: 3 lines, 1 of them blank" in printed.err


def test_from_a_pipe_by_its_name_to_standard_output(random_run, tmp_path, capsys, monkeypatch):
    translator = newest_translator(random_run)
    monkeypatch.setattr(Translator, "from_run", lambda *arguments: translator)
    sources, pipe = ["A man", "The dog sleeps."], tmp_path / "pipe"
    os.mkfifo(pipe)
    given = "".join(f"{line}\n" for line in sources)
    writer = threading.Thread(target=pipe.write_text, args=[given], daemon=True)
    writer.start()
    decode(f"--output_dir={random_run}", f"--decode_from_file={pipe}")
    writer.join()
    expected = [translation.text for translation in translator.translate(sources)]
    assert capsys.readouterr().out.split("\n")[:-1] == expected
    assert list(tmp_path.iterdir()) == [pipe]


def test_killed_in_the_middle_it_goes_on(random_run, tmp_path, capsys):
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    sources = [f"A man eats {number} dogs." for number in range(60)]
    source.write_text("".join(f"{line}\n" for line in sources))
    flags = [
        f"--output_dir={random_run}", f"--decode_from_file={source}", f"--decode_to_file={output}",
        f"--decode_hparams={FAST},lines_at_once=1",
    ]  # fmt: skip
    record = tmp_path / "out.txt.progress.json"
    command = [sys.executable, "-m", "t2t_keras.bin.t2t_decoder", *flags]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while not record.exists() or json.loads(record.read_text())["lines"] < 3:
            assert process.poll() is None
            time.sleep(0.001)
        process.kill()
    done = json.loads(record.read_text())["lines"]
    assert done < len(sources)
    assert not output.exists()
    t2t_decoder.run(["t2t-decoder", *flags])
    assert output.read_text().split("\n")[:-1] == expected_lines(random_run, sources)
    assert f"{done} lines were done before." in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.txt"]


@pytest.mark.parametrize("changed", ["member", "prefixes"])
def test_a_job_made_by_something_else_is_not_continued(
    random_run, tmp_path, capsys, monkeypatch, changed
):
    """A run that another checkpoint came to, as a member of an ensemble; another prefix file."""
    member, prefixes = tmp_path / "member", tmp_path / "begins.txt"
    shutil.copytree(random_run, member)
    source = tmp_path / "in.txt"
    source.write_text("A man\nA dog\n")
    prefixes.write_text("Ein\nEin\n")
    flags = [
        f"--output_dir={random_run}", f"--decode_from_file={source}", f"--ensemble={member}",
        f"--decode_to_file={tmp_path / 'out.txt'}", f"--prefix_file={prefixes}",
        f"--decode_hparams={FAST},lines_at_once=1",
    ]  # fmt: skip

    def interrupted(self, *arguments):
        if self.lines_done == 1:
            raise KeyboardInterrupt
        append(self, *arguments)

    append = ResumableOutputs.append
    with monkeypatch.context() as patch:
        patch.setattr(ResumableOutputs, "append", interrupted)
        with pytest.raises(SystemExit):
            t2t_decoder.run(["t2t-decoder", *flags])
    if changed == "member":
        for file in member.glob("model.ckpt-30.*"):
            file.unlink()
        (member / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-20"\n')
    else:
        prefixes.write_text("Ein\nEine\n")
    capsys.readouterr()
    with pytest.raises(SystemExit):
        t2t_decoder.run(["t2t-decoder", *flags])
    expected = "ensemble: .*ckpt-30.* there, .*ckpt-20" if changed == "member" else "prefixes: "
    assert re.search(expected, capsys.readouterr().err)


def test_ensemble_of_checkpoints(random_run, tmp_path):
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("A man\nThe dog sleeps.\n")
    earlier = random_run / "model.ckpt-10"
    decode(
        f"--output_dir={random_run}",
        f"--decode_from_file={source}",
        f"--decode_to_file={output}",
        f"--ensemble={earlier}, {random_run}",
    )
    sources = source.read_text().splitlines()
    together = expected_lines(random_run, sources, ensemble=[earlier, random_run])
    assert output.read_text().splitlines() == together
    assert together != expected_lines(random_run, sources)


def test_scores_of_pairs(random_run, tmp_path, capsys):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("A man\tEin Mann\nThe dog\tDer Hund\n")
    decode(f"--output_dir={random_run}", f"--score_file={pairs}")
    scores = Translator.from_run(random_run).score(["A man", "The dog"], ["Ein Mann", "Der Hund"])
    rows = [line.split("\t") for line in (tmp_path / "pairs.tsv.scores").read_text().splitlines()]
    assert [row[0] for row in rows] == [f"{score.log_prob:.4f}" for score in scores]
    a_token = sum(score.log_prob for score in scores) / sum(int(row[1]) for row in rows)
    assert f"perplexity {math.exp(-a_token):.3f}" in capsys.readouterr().out


def test_flags_that_agree_need_not_be_left_out(random_run, text):
    decode(
        f"--output_dir={random_run}",
        "--problem=parallel_text",
        "--problem_config=source_language=en,target_language=de",
        "--hparams_set=transformer_tiny",
        "--model=transformer",
    )
    found = random_run / "decodes" / "parallel_text.dev.beam2.alpha0.6.decodes"
    assert found.read_text().split("\n")[:-1] == expected_lines(random_run, text("dev")[0])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "Please give --output_dir"),
        (["--output_dir=nowhere"], "There is no run in --output_dir=nowhere"),
        (["RUN", "--hparams=d_ff=32"], "trained otherwise: d_ff: 16 in the run, 32 asked for"),
        (["RUN", "--problem=algorithmic_identity_binary40"], "problem: parallel_text"),
        (["RUN", "--checkpoint_path=RUN/model.ckpt-11"], "no checkpoint .*model.ckpt-10, "),
        (["RUN", "--data_dir=nowhere"], "t2t-datagen"),
        (["RUN", "--decode_reference=x"], "belongs to --decode_from_file"),
        (["RUN", "--decode_from_file=x", "--eval_use_test_set"], "exclude each other"),
        (["RUN", "--decode_interactive", "--results_file=x"], "exclude each other"),
        (["RUN", "--decode_from_file=ONE", "--results_file=x"], "give --decode_reference"),
        (["RUN", "--score_file=ONE", "--prefix_file=x"], "exclude each other"),
        (["RUN", "--score_file=ONE"], "one.txt:1 is not a source, one tab"),
        (["RUN", "--ensemble=nowhere"], "There is no checkpoint nowhere"),
        (["RUN", "--decode_from_file=-", "--decode_reference=ONE"], "in a file"),
        (["RUN", "--decode_from_file=/dev/null", "--decode_reference=ONE"], "in a file"),
        (["RUN", "--decode_from_file=ONE", "--decode_reference=/dev/null"], "in a file"),
        (["RUN", "--decode_to_file=-"], "must be in a file"),
        (["RUN", "--eval_use_test_set", "--decode_to_file=/dev/null"], "must be in a file"),
        (["RUN", "--decode_from_file=ONE", "--decode_to_file=ONE"], "write over .*which is read"),
        (
            ["RUN", "--decode_from_file=ONE", "--forbidden_file=TWO", "--decode_to_file=TWO"],
            "two.txt, which is read",
        ),
        (
            ["RUN", "--decode_from_file=ONE", "--attention_file=x", "--ensemble=RUN"],
            "ensemble of 2",
        ),
        (["RUN", "--score_file=ONE", "--attention_file=x"], "exclude each other"),
        (["RUN", "--decode_from_file=-", "--attention_file=x"], "Only a job with one output"),
        (["RUN", "--forbidden_file=nowhere"], "nowhere cannot be read"),
        (["RUN", "--decode_from_file=nowhere"], "nowhere cannot be read: No such file"),
        (["RUN", "--decode_from_file=LATIN"], "latin.txt:2 is not UTF-8"),
        (["RUN", "--decode_from_file=ONE", "--decode_reference=TWO"], "1 lines and .* has 2"),
        (["RUN", "--decode_from_file=ONE", "--decode_to_file=ONE/x"], "cannot be made"),
        (["RUN", "--decode_to_fil=x"], "Did you mean 'decode_to_file'"),
    ],
)
def test_errors_are_one_message(random_run, tmp_path, capsys, flags, message):
    files = {"ONE": b"0 1\n", "TWO": b"0 1\n1\n", "LATIN": b"0 1\n\xe4\n"}
    for name, content in files.items():
        path = tmp_path / f"{name.lower()}.txt"
        path.write_bytes(content)
        flags = [flag.replace(name, str(path)) for flag in flags]
    flags = [f"--output_dir={random_run}" if flag == "RUN" else flag for flag in flags]
    with pytest.raises(SystemExit) as caught:
        decode(*[flag.replace("RUN", str(random_run)) for flag in flags])
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("t2t-decoder: ")
    assert re.search(message, printed.err)


def test_bad_decoding_setting(random_run, capsys):
    with pytest.raises(SystemExit):
        t2t_decoder.run(
            ["t2t-decoder", f"--output_dir={random_run}", "--decode_hparams=beem_size=2"]
        )
    assert "Did you mean 'beam_size'" in capsys.readouterr().err


def test_interactive_from_a_pipe(random_run, monkeypatch, capsys):
    typed = io.TextIOWrapper(io.BytesIO(b"A man\n\n\xff\nThe dog\n"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", typed)
    decode(f"--output_dir={random_run}", "--decode_interactive")
    first, last = expected_lines(random_run, ["A man", "The dog"])
    assert capsys.readouterr().out.split("\n") == [
        first, "", "(This line is not UTF-8.)", last, "",
    ]  # fmt: skip


def test_interactive_ends_at_ctrl_c(random_run):
    def lines():
        yield "A man"
        raise KeyboardInterrupt

    answers = []
    translate_typed(newest_translator(random_run), lines(), answers.append)
    assert len(answers) == 1
