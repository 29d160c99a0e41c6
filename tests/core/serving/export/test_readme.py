import json
import re
import shutil
import subprocess

import keras
import pytest

from t2t_keras.serving.export import write_readme

# What a shell would replace, run or end a text at.
HOSTILE = 'It\'s "$5" `echo no` $(echo no) \\ !! ü'


def commands_of(readme):
    """The shell's commands of a README, by their first word."""
    found = re.findall(r"^    (?! )(.*(?:\n {8}.*)*)", readme, flags=re.MULTILINE)
    return {command.split()[0]: command for command in found}


def printed_by(command):
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    return done.stdout


def test_the_examples_translate(exported, export_ports, translator, capsys):
    """That for gRPC in this process, which has TensorFlow; nothing of the package is in it."""
    if not shutil.which("curl"):
        pytest.skip("needs curl")
    readme = (exported / "README.md").read_text("utf-8")
    assert {"- made in a test", "| output | `score` | float32 | [?] |"} < {*readme.split("\n")}
    for port, protocol in (("8500", "grpc"), ("8501", "rest")):
        readme = readme.replace(f"localhost:{port}", f"127.0.0.1:{export_ports[protocol]}")
    example = re.search(r"```python\n(.*?)```", readme, flags=re.DOTALL)[1]
    assert "t2t" not in example
    exec(example, {})
    text, score = capsys.readouterr().out.removesuffix("\n").rsplit(" ", 1)
    [expected] = translator.translate(["A sentence."])
    expected_score = pytest.approx(expected.score, abs=1e-5)
    assert (text, float(score)) == (expected.text, expected_score)
    outputs = json.loads(printed_by(commands_of(readme)["curl"]))["outputs"]
    assert (outputs["translation"], outputs["score"]) == ([expected.text], [expected_score])


def test_any_sentence_reaches_the_commands_as_it_is(loaded, translator, tmp_path):
    manifest = loaded.manifest | {"dtype": "int8", "outputs": "Trees as symbols."}
    write_readme(tmp_path, {}, manifest, translator.config, "en-de", (), HOSTILE)
    text = (tmp_path / "README.md").read_text("utf-8")
    for said in (
        "\n- origin: not known\n",
        f", SentencePiece, {translator.tokenizer.vocab_size} ids, ",
        "\n- weights: int8\n",
        "\n- decoding: beam_size=3, ",
        f"keras {keras.__version__}",
        "\nTrees as symbols.\n",
        "MODEL_NAME=en-de ",
        "/v1/models/en-de:predict ",
        'model_spec.name = "en-de"',
        "--servable_name=en-de ",
    ):
        assert said in text

    def last_argument(name):
        command = commands_of(text)[name].replace(name, "printf '%s\\n'", 1)
        return printed_by(command).split("\n")[-2]

    assert last_argument("t2t-query-server") == f"--inputs_once={HOSTILE}"
    assert json.loads(last_argument("curl"))["inputs"] == {"text": [HOSTILE]}
    assert eval(re.search(r"make_tensor_proto\((.*)\)\)\n", text)[1]) == [HOSTILE]
