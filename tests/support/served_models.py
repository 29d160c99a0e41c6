"""A translator of random weights, its export, and a stand-in for TensorFlow Serving."""

import fcntl
import os

import keras
import pytest
import stand_in_server

from t2t_keras.data.problem import make_problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translation import Translation
from t2t_keras.decoding.translator import Translator
from t2t_keras.models.transformer import Transformer
from t2t_keras.serving.client import GrpcClient, RestClient
from t2t_keras.serving.export import export
from t2t_keras.serving.load import load_export
from t2t_keras.text.tokenizer import SentencePieceTokenizer


@pytest.fixture(scope="session")
def lines():
    """Text of many kinds: blank lines, and one that is too long, among it."""
    return [
        "The small dog sleeps.",
        "",
        "Der kleine Hund schläft im Haus, während die Katze frisst.",
        "  two spaces first",
        " \t ",
        "一只猫 🐈 sits",
        "\u3000\u00a0",
        "e\u0301 \x01 control",
    ]


@pytest.fixture(scope="session")
def small_translator(lines):
    """small_translator(**model_options): every variation of Table 3, random weights."""
    toy = [source for source, _ in make_problem("translate_ende_toy").examples("dev")]
    tokenizer = SentencePieceTokenizer.train([*filter(str.strip, lines)] * 20 + toy, vocab_size=500)
    sizes = dict(num_layers=1, d_model=16, d_ff=16, num_heads=2, d_k=4, d_v=6)
    learned = dict(
        positions="learned",
        max_positions=64,
        feed_forward="parameter_attention",
        parameter_attention_heads=2,
    )

    def small_translator(**options):
        keras.utils.set_random_seed(3)
        options |= dict(self_attention_radius=2, pre_norm=True)
        model = Transformer(tokenizer.vocab_size, **sizes, **learned, **options)
        model.build()
        model.set_weights([3.0 * weight for weight in model.get_weights()])  # varied text
        config = DecodeConfig(beam_size=3, extra_length=3, max_input_length=24)
        return Translator(model, tokenizer, config)

    return small_translator


@pytest.fixture(scope="session")
def translator(small_translator):
    return small_translator()


@pytest.fixture(scope="session")
def expected(translator, lines):
    """The translation of each line in this process, as an export and a client give it."""
    return [
        Translation(
            translation.text, pytest.approx(translation.score, rel=1e-5), cut=translation.cut
        )
        for translation in translator.translate(lines)
    ]


@pytest.fixture(scope="session")
def exported(translator, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # Tracing takes long: made once for all processes.
        folder = folder.parent
    with (folder / "export.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for path in (folder / "export").glob("*"):
            return path
        return export(translator, folder / "export", origin=["made in a test"])


@pytest.fixture(scope="session")
def loaded(exported, tmp_path_factory):
    # TensorFlow takes the path for a pattern.
    link = tmp_path_factory.mktemp("exports") / "export[1]"
    link.symlink_to(exported)
    return load_export(link, warm_up=True)


@pytest.fixture(scope="session")
def served(exported):
    """The export in a stand-in for TensorFlow Serving, as the model "translate"."""
    return stand_in_server.Model(exported, "translate")


@pytest.fixture(scope="session")
def export_ports(served):
    """The ports of its server."""
    with stand_in_server.serve(served) as ports:
        yield ports


@pytest.fixture(params=["grpc", "rest"])
def protocol(request):
    return request.param


@pytest.fixture
def connect(protocol, request):
    """connect(address, **of Client): a client, closed with the test."""

    def connect(address, **settings):
        kind = {"grpc": GrpcClient, "rest": RestClient}[protocol]
        client = kind(address, **{"name": "ende", "timeout": 20.0, **settings})
        request.addfinalizer(client.close)
        return client

    return connect
