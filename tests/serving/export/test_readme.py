"""What an export's README says; its examples do what they say."""

import json
import re
import shutil
import subprocess

import pytest

from t2t_keras.serving.export.readme import write_readme

# What a shell would replace, run or end a text at.
HOSTILE = 'It\'s "$5" `echo no` $(echo no) \\ !! ü'


def _commands(readme):
    """Returns the shell's commands of a README, by their first word."""
    found = re.findall(r"^    (?! )(.*(?:\n {8}.*)*)", readme, flags=re.MULTILINE)
    return {command.split()[0]: command for command in found}


@pytest.fixture(scope="module")
def readme(exported):
    return (exported / "README.md").read_text("utf-8")


@pytest.fixture
def served_readme(readme, export_server):
    """The README, with the ports of the server that serves the export."""
    for port, protocol in (("8500", "grpc"), ("8501", "rest")):
        readme = readme.replace(f"localhost:{port}", f"127.0.0.1:{export_server[protocol]}")
    return readme


@pytest.fixture(scope="module")
def expected(translator):
    return translator.translate(["A sentence."])[0]


def test_names_signatures_vocabulary_and_settings(readme, translator):
    assert translator.tokenizer.checksum in readme
    assert "beam_size=3" in readme
    for line in (
        "- made in a test",
        "### `attention`",
        "| input | `text` | string | [?] |",
        "| output | `score` | float32 | [?] |",
        "| output | `translation` | string | [?] |",
        "    docker run --rm -p 8500:8500 -p 8501:8501 -e MODEL_NAME=translate \\",
        '        -v "$PWD":/models/translate tensorflow/serving',
    ):
        assert line in readme.split("\n")
    assert "$" not in readme.replace('"$PWD"', "")


def test_the_example_for_grpc(served_readme, expected, capsys):
    """In this process, which has TensorFlow; nothing of the package is in the example."""
    example = re.search(r"```python\n(.*?)```", served_readme, flags=re.DOTALL)[1]
    assert "t2t" not in example
    exec(example, {})
    text, score = capsys.readouterr().out.removesuffix("\n").rsplit(" ", 1)
    assert text == expected.text
    assert float(score) == pytest.approx(expected.score, abs=1e-5)


def test_the_example_for_rest(served_readme, expected):
    if not shutil.which("curl"):
        pytest.skip("needs curl")
    command = ["sh", "-c", _commands(served_readme)["curl"]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    outputs = json.loads(done.stdout)["outputs"]
    assert outputs["translation"] == [expected.text]
    assert outputs["score"] == pytest.approx([expected.score], abs=1e-5)


def test_any_sentence_reaches_the_commands_as_it_is(exported, translator, tmp_path):
    manifest = json.loads((exported / "manifest.json").read_text("utf-8"))
    write_readme(tmp_path, {}, manifest, translator.config, "translate", (), HOSTILE)
    text = (tmp_path / "README.md").read_text("utf-8")
    commands = _commands(text)

    def last_argument(name):
        command = commands[name].replace(name, "printf '%s\\n'", 1)
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
        return done.stdout.split("\n")[-2]

    assert last_argument("t2t-query-server") == f"--inputs_once={HOSTILE}"
    assert json.loads(last_argument("curl"))["inputs"] == {"text": [HOSTILE]}
    assert eval(re.search(r"make_tensor_proto\((.*)\)\)\n", text)[1]) == [HOSTILE]
