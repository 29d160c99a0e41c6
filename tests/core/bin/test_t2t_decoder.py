import dataclasses
import functools
import io
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import sacrebleu
import tensorflow as tf

from t2t_keras.bin import t2t_decoder
from t2t_keras.data.problem import make_problem
from t2t_keras.decoding import disturbed
from t2t_keras.decoding.translator import Translator
from t2t_keras.evaluation.results import read_results
from t2t_keras.io.terminal import printable
from t2t_keras.tables import cost_table, weights_table
from t2t_keras.training import checkpoint_files, run_config
from t2t_keras.training.checkpoint_files import path_at

pytestmark = pytest.mark.usefixtures("eagerly")

FAST = "beam_size=2,extra_length=2,max_length=9"
SOURCES = ["A man eats.", "", "The dog sleeps in the red house.", "  ", "Dogs"]


@pytest.fixture
def decode(random_run):
    """decode(flags, settings): runs the command on the run."""

    def decode(*flags, settings=FAST):
        run = [f"--output_dir={random_run}", f"--decode_hparams={settings}"]
        t2t_decoder.run(["t2t-decoder", *run, *map(str, flags)])

    return decode


@pytest.fixture
def write(tmp_path):
    """write(name, lines): the path of a new file."""

    def write(name, lines):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write


@functools.cache
def translator_of(run, **options):
    return Translator.from_run(run, decode_hparams=FAST, **options)


def expected_lines(run, sources, **options):
    return [translation.text for translation in translator_of(run, **options).translate(sources)]


def lines_of(path):
    return path.read_text().split("\n")[:-1]


def bleu(lines, references):
    return sacrebleu.corpus_bleu(lines, [references], tokenize="13a").score


def test_the_run_is_read_once_and_its_checkpoint_is_looked_for_once(
    random_run, decode, write, tmp_path, monkeypatch
):
    read = mock.Mock(wraps=run_config.read_json)
    find = mock.Mock(wraps=checkpoint_files.newest_checkpoint)
    monkeypatch.setattr(run_config, "read_json", read)
    monkeypatch.setattr(checkpoint_files, "newest_checkpoint", find)
    decode(f"--decode_from_file={write('in.txt', SOURCES)}", f"--decode_to_file={tmp_path / 'o'}")
    assert [Path(call.args[0]) for call in read.mock_calls] == [random_run / "run.json"]
    assert [Path(call.args[0]) for call in find.mock_calls] == [random_run]


def test_file_with_blank_lines_and_reference(random_run, decode, write, tmp_path, capsys):
    references = ["Ein Mann isst.", "", "Der Hund schläft im roten Haus.", "", "Hunde"]
    target = tmp_path / "out" / "new" / "o.txt"
    decode(
        f"--decode_from_file={write('in.txt', SOURCES)}",
        f"--decode_to_file={target}",
        f"--decode_reference={write('r.txt', references)}",
    )
    lines = lines_of(target)
    assert lines == expected_lines(random_run, SOURCES)
    assert (lines[1], lines[3], len(set(lines))) == ("", "", 4)
    printed = capsys.readouterr().out
    [summary] = re.findall(f"^{target}: .*$", printed, re.M)
    assert f" {target}.\n" not in printed, "whoever names it knows it"
    assert re.findall(r"\d+ ", summary)[:2] == ["5 ", "2 "], "lines, and blank ones"
    # Which one it is is not clear where the newest was removed by hand.
    assert summary.endswith(f" {path_at(random_run, 30)}")
    score = bleu(lines, references)
    assert re.search(rf"BLEU\|nrefs:1\|\S*tok:13a\S* = {score:.2f} ", printed)


def test_default_name_checkpoint_ensemble_and_flags_that_agree(
    random_run, decode, write, tmp_path, capsys
):
    checkpoint, ensemble = random_run / "model.ckpt-10", (random_run / "model.ckpt-20", random_run)
    decode(
        f"--decode_from_file={write('in.txt', SOURCES)}",
        f"--checkpoint_path={checkpoint}.safetensors",
        f"--ensemble={ensemble[0]}, {ensemble[1]}",
        "--problem=parallel_text",
        "--problem_config=source_language=en,target_language=de",
        "--hparams_set=transformer_tiny",
        "--model=transformer",
    )
    name = "in.txt.transformer.transformer_tiny.parallel_text.beam2.alpha0.6.decodes"
    together = dict(checkpoint_path=checkpoint, ensemble=ensemble)
    shown = capsys.readouterr().out
    first, *_, last = shown.splitlines()
    assert f"{tmp_path / name}. " in first
    assert "--decode_to_file=-" in first
    assert "model.ckpt-10" in last
    lines = lines_of(tmp_path / name)
    assert lines == expected_lines(random_run, SOURCES, **together)
    assert lines != expected_lines(random_run, SOURCES, checkpoint_path=checkpoint)
    assert lines != expected_lines(random_run, SOURCES)


def test_shards(random_run, decode, write, tmp_path):
    flags = [f"--decode_from_file={write('in.txt', SOURCES)}"]
    flags += [f"--decode_to_file={tmp_path}/o", f"--alignment_file={tmp_path}/a"]
    for shard in ("", "1/3", "2/3", "3/3"):
        decode(*flags, f"--shard={shard}")
    for name in ("o", "a"):
        parts = [tmp_path / f"{name}-{number:05d}-of-00003" for number in (1, 2, 3)]
        assert sorted(tmp_path.glob(f"{name}-*")) == parts
        assert [len(lines_of(part)) for part in parts] == [1, 2, 2]
        assert "".join(map(Path.read_text, parts)) == (tmp_path / name).read_text()


def test_the_test_set(random_run, decode, capsys):
    data = random_run.parent / "data" / "parallel_text"
    sources, references = (lines_of(data / f"test.{side}.txt") for side in ("source", "target"))
    for _ in range(2):  # Again, as a file that a run may have replaced.
        decode("--eval_use_test_set")
    lines = lines_of(random_run / "decodes" / "parallel_text.test.beam2.alpha0.6.decodes")
    assert lines == expected_lines(random_run, sources)
    # A random model's BLEU is 0 with any references; their length is beside it.
    expected = sacrebleu.corpus_bleu(lines, [references]).format().removeprefix("BLEU")
    assert expected in capsys.readouterr().out


def test_results_are_added(random_run, decode, write, tmp_path, capsys):
    results, output = tmp_path / "results.jsonl", tmp_path / "out"
    flags = [f"--results_file={results}", f"--decode_to_file={output}"]
    decode(*flags)
    begins = write("begins", ["Ein"])
    news = [f"--decode_from_file={write('news.en', ['A man'])}", f"--prefix_file={begins}"]
    news += [f"--decode_reference={write('news.de', ['Ein Mann'])}"]
    decode(*flags, *news, f"--checkpoint_path={random_run / 'model.ckpt-10'}")
    assert str(results) in capsys.readouterr().out
    first, second = read_results(results)
    assert (first.split, first.steps, first.problem) == ("dev", 30, "parallel_text")
    assert (second.split, second.steps) == ("news.en", 10)
    # These tell a score that is not the model's alone.
    alone = {"ensemble": [], "forbidden": "", "prefixes": "", "beam_size": 2, "alpha": 0.6}
    assert {name: first.decode[name] for name in alone} == alone
    assert second.decode["prefixes"] == str(begins)
    chrf = sacrebleu.corpus_chrf(lines_of(output), [["Ein Mann"]]).score
    assert (chrf > 0, second.chrf) == (True, pytest.approx(chrf, abs=0.001))
    with pytest.raises(SystemExit) as caught:
        decode(*flags[1:], *news, "--results_file=/dev/full")
    assert caught.value.code == 2
    assert lines_of(output)[0].startswith("Ein"), "the translations are kept"
    assert "tok:13a" in capsys.readouterr().out


def test_disturbed_text(random_run, decode, write, tmp_path, capsys, monkeypatch):
    def interrupted(translator, source, output, *arguments, **options):
        started.append(output)
        if len(started) == 2:
            raise KeyboardInterrupt
        return translate_file(translator, source, output, *arguments, **options)

    started, translate_file = [], disturbed.translate_file
    monkeypatch.setattr(disturbed, "translate_file", interrupted)
    # The model writes one word.
    monkeypatch.setattr(type(make_problem("parallel_text")), "tokenize", "char")
    sources = ["A man sleeps in the house.", "The woman sees the dog."]
    texts = [[sources, expected_lines(random_run, sources)]]
    results, output = tmp_path / "results.jsonl", tmp_path / "out"
    flags = [f"--decode_from_file={write('news', sources)}", f"--decode_to_file={output}"]
    flags += [f"--decode_reference={write('right', texts[0][1])}", f"--results_file={results}"]
    with pytest.raises(SystemExit):
        decode(*flags, "--disturb=upper,typos")
    decode(*flags, "--disturb=upper,typos")
    files = [output, tmp_path / "out.upper", tmp_path / "out.typos"]
    # Nothing finished is done again.
    assert started == list(map(str, [*files[:2], *files[1:]]))
    texts += [[lines_of(Path(f"{f}.{s}")) for s in ("source", "reference")] for f in files[1:]]
    assert texts[1] == [[line.upper() for line in side] for side in texts[0]]
    assert texts[2][1] == texts[0][1]
    assert all(map(str.__ne__, texts[2][0], sources))
    results_read, printed = read_results(results), capsys.readouterr().out
    assert [result.split for result in results_read] == ["news", "news.upper", "news.typos"]
    assert [result.text for result in results_read] == ["", "news, upper", "news, typos"]
    assert [result.decode.get("disturb") for result in results_read] == [None, "upper", "typos"]
    for file, (lines, references), result in zip(files, texts, results_read, strict=True):
        assert lines_of(file) == expected_lines(random_run, lines)
        score = sacrebleu.corpus_bleu(lines_of(file), [references], tokenize="char").score
        assert result.bleu == pytest.approx(score, abs=1e-3)
        name, difference = result.decode.get("disturb", "news"), f"{score - 100:+.2f}"
        assert re.search(rf"^{name} +{score:.2f} +{re.escape(difference)}$", printed, re.M)
    assert results_read[0].bleu == pytest.approx(100)
    assert results_read[1].bleu < 50
    # Table 3 shows the dev set, and Table 2 all others.
    dev = [
        dataclasses.replace(result, split=result.split.replace("news", "dev"))
        for result in results_read
    ]
    assert (weights_table(dev).results, cost_table(dev).results) == (dev, [])
    assert not (tmp_path / "out.disturbed.json").exists()


def test_what_else_a_file_can_be_given(random_run, decode, write, tmp_path):
    sources = ["A man", "", "The dog sleeps."]
    plain = expected_lines(random_run, sources)
    output, alignments, attention = (tmp_path / name for name in ("o.txt", "aligned", "attention"))
    decode(
        f"--decode_from_file={write('in.txt', sources)}",
        f"--decode_to_file={output}",
        f"--prefix_file={write('begins', ['', '', 'Der Hund'])}",
        f"--forbidden_file={write('not', [plain[0].split()[0]])}",
        f"--alignment_file={alignments}",
        f"--attention_file={attention}",
    )
    lines = lines_of(output)
    assert plain[0].split()[0] not in lines[0].split()
    assert lines[1] == ""
    assert lines[2].startswith("Der Hund")
    for line, aligned in zip(lines, lines_of(alignments), strict=True):
        pairs = [pair.split("-") for pair in aligned.split()]
        assert [int(target) for _, target in pairs] == list(range(len(pairs)))
        assert bool(pairs) == bool(line)
    [expected] = translator_of(random_run).attention(sources[:1], lines[:1])
    with attention.open("rb") as file:
        source, target, encoder, *_ = (np.load(file) for _ in range(5))
    assert (tuple(source), tuple(target)) == (expected.source, expected.target)
    np.testing.assert_allclose(encoder, expected.encoder, atol=1e-5)


def test_killed_in_the_middle_it_is_continued(random_run, decode, write, tmp_path, capsys):
    tf.config.run_functions_eagerly(False)  # Each line is a batch.
    sources = [f"A man eats {number} dogs." for number in range(60)]
    flags = [f"--decode_from_file={write('in.txt', sources)}", f"--decode_to_file={tmp_path}/o"]
    record, settings = tmp_path / "o.progress.json", f"{FAST},lines_at_once=1"
    command = [sys.executable, "-m", "t2t_keras.bin.t2t_decoder", *flags]
    command += [f"--output_dir={random_run}", f"--decode_hparams={settings}"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while not record.exists() or json.loads(record.read_text())["lines"] < 3:
            assert process.poll() is None
            time.sleep(0.001)
        process.kill()
    done = json.loads(record.read_text())["lines"]
    assert done < len(sources)
    assert not (tmp_path / "o").exists()
    decode(*flags, settings=settings)
    assert lines_of(tmp_path / "o") == expected_lines(random_run, sources)
    assert capsys.readouterr().err.startswith(f"{done} ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "o"]


def test_a_job_with_another_ensemble_is_not_continued(random_run, decode, write, tmp_path, capsys):
    member, source = tmp_path / "member", write("in.txt", ["A man"])
    shutil.copytree(random_run, member)
    with source.open("ab") as file:
        file.write(b"\xff\n")  # It ends there.
    flags = [f"--decode_from_file={source}", f"--ensemble={member}"]
    with pytest.raises(SystemExit):
        decode(*flags, settings=f"{FAST},lines_at_once=1")
    assert "in.txt:2" in capsys.readouterr().err
    Path(path_at(member, 30)).unlink()
    with pytest.raises(SystemExit) as stop:
        decode(*flags, settings=f"{FAST},lines_at_once=1")
    assert stop.value.__cause__.code == "other_settings"
    assert "ensemble: " in capsys.readouterr().err


def test_scores_of_pairs(random_run, decode, write, tmp_path):
    pairs = write("pairs.tsv", ["A man\tEin Mann", "The dog\tDer Hund"])
    decode(f"--score_file={pairs}")
    scores = translator_of(random_run).score(["A man", "The dog"], ["Ein Mann", "Der Hund"])
    rows = [line.split("\t") for line in lines_of(tmp_path / "pairs.tsv.scores")]
    assert [row[0] for row in rows] == [f"{score.log_prob:.4f}" for score in scores]


def test_interactive_from_a_pipe(random_run, decode, monkeypatch, capsys):
    stream = io.TextIOWrapper(io.BytesIO(b"A man\n\n\xff\nThe dog\n"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stream)
    decode("--decode_interactive")
    first, blank, error, last, _ = capsys.readouterr().out.split("\n")
    expected = expected_lines(random_run, ["A man", "", "The dog"])
    assert [first, blank, last] == list(map(printable, expected))
    assert "UTF-8" in error
