"""The examples in an export's README do what they say."""

import json
import re
import shutil
import subprocess

import pytest

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.serving import description
from t2t_keras.serving.origin import Origin

# What a shell would replace, run or end a text at.
HOSTILE = 'It\'s "$5" `echo no` $(echo no) \\ !! ü'


def _commands(readme):
    """Returns the shell's commands of a README, by their first word."""
    found = re.findall(r"^    (?! )(.*(?:\n {8}.*)*)", readme, flags=re.MULTILINE)
    return {command.split()[0]: command for command in found}


@pytest.fixture
def readme(exported, server):
    """The README, with the ports of the server that serves the export."""
    text = (exported / "README.md").read_text("utf-8")
    for port, protocol in (("8500", "grpc"), ("8501", "rest")):
        text = text.replace(f"localhost:{port}", f"127.0.0.1:{server[protocol]}")
    return text


@pytest.fixture
def expected(translator):
    (translation,) = translator.translate([Origin().example])
    return translation


def test_the_example_for_grpc(readme, expected, capsys):
    """In this process, which has TensorFlow; nothing of the package is in the example."""
    example = re.search(r"```python\n(.*?)```", readme, flags=re.DOTALL)[1]
    assert "t2t" not in example
    exec(example, {})
    text, score = capsys.readouterr().out.removesuffix("\n").rsplit(" ", 1)
    assert text == expected.text
    assert float(score) == pytest.approx(expected.score, abs=1e-5)


def test_the_example_for_rest(readme, expected):
    if not shutil.which("curl"):
        pytest.skip("needs curl")
    command = _commands(readme)["curl"]
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    outputs = json.loads(done.stdout)["outputs"]
    assert outputs["translation"] == [expected.text]
    assert outputs["score"] == pytest.approx([expected.score], abs=1e-5)


def test_any_sentence_reaches_the_commands_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(description, "_signatures", lambda directory: "")
    vocabulary = {"size": 5, "sha256": "v"}
    origin = Origin(example=HOSTILE)
    description.write_readme(tmp_path, origin, DecodeConfig(), vocabulary, "float32", "translate")
    text = (tmp_path / "README.md").read_text("utf-8")
    commands = _commands(text)

    def last_argument(name):
        command = commands[name].replace(name, "printf '%s\\n'", 1)
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
        return done.stdout.split("\n")[-2]

    assert last_argument("t2t-query-server") == f"--inputs_once={HOSTILE}"
    assert json.loads(last_argument("curl"))["inputs"] == {"text": [HOSTILE]}
    assert eval(re.search(r"make_tensor_proto\((.*)\)\)\n", text)[1]) == [HOSTILE]
