"""A small translator, its export, a server of it and the clients."""

import contextlib

import keras
import pytest
from tensorflow.core.protobuf import saved_model_pb2

from t2t_keras import registry
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translator import Translator
from t2t_keras.models.transformer import Transformer
from t2t_keras.serving.client.grpc import GrpcClient
from t2t_keras.serving.client.rest import RestClient
from t2t_keras.serving.export.export import export
from t2t_keras.serving.export.load import load_export
from t2t_keras.text.tokenizer import Tokenizer

LINES = [
    "The small dog sleeps.",
    "",
    "Der kleine Hund schläft im Haus, während die Katze frisst.",
    "  two spaces first",
    " \t ",
    "一只猫 🐈 sits",
    "\u3000\u00a0",
    "e\u0301 \x01 control",
]
# Every variation of Table 3, and restricted attention, in one model.
VARIED = dict(
    num_layers=1,
    d_model=16,
    d_ff=16,
    num_heads=2,
    d_k=4,
    d_v=6,
    self_attention_radius=2,
    learned_positions=64,
    parameter_attention_heads=2,
    pre_norm=True,
)


@pytest.fixture(scope="session")
def lines():
    """Text of many kinds, blank lines among it."""
    return list(LINES)


@pytest.fixture(scope="session")
def real_lines(root):
    """Sentences, of real text where it is, else of a grammar."""
    file = root.parent / "shared" / "data" / "multi30k" / "val.en"
    if file.exists():
        return file.read_text("utf-8").split("\n")[:60]
    return [source for source, _ in registry.problem("translate_ende_toy").examples("dev")][:60]


@pytest.fixture(scope="session")
def small_translator(real_lines):
    """small_translator(**model_options): random weights, varied text; long lines are cut."""
    text = [line for line in LINES if line.strip()] * 20 + real_lines
    tokenizer = Tokenizer.train(text, vocab_size=500)
    config = DecodeConfig(beam_size=3, extra_length=3, max_input_length=24)

    def small_translator(**model_options):
        keras.utils.set_random_seed(3)
        model = Transformer(tokenizer.vocab_size, **VARIED, **model_options)
        model.build()
        model.embedding.matrix.assign(3.0 * model.embedding.matrix.numpy())
        return Translator(model, tokenizer, config)

    return small_translator


@pytest.fixture(scope="session")
def translator(small_translator):
    return small_translator()


@pytest.fixture(scope="session")
def exported(translator, tmp_path_factory):
    return export(translator, tmp_path_factory.mktemp("export"), origin=["made in a test"])


@pytest.fixture(scope="session")
def loaded(exported):
    return load_export(exported, warm_up=True)


@pytest.fixture(scope="session")
def graph(exported):
    """The MetaGraphDef of the export."""
    content = (exported / "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    return graph


@pytest.fixture(scope="session")
def stand_in(load_module, root):
    return load_module(root / "tests" / "serving" / "stand_in_server.py")


@pytest.fixture(scope="session")
def export_server(exported, stand_in):
    """The ports of a stand-in for TensorFlow Serving that serves the export as "translate"."""
    with stand_in.serve(stand_in.Model(exported, "translate")) as ports:
        yield ports


@pytest.fixture(params=["grpc", "rest"])
def protocol(request):
    return request.param


@pytest.fixture
def connect(protocol):
    """connect(address, **of Client): a client, closed with the test."""
    with contextlib.ExitStack() as stack:

        def connect(address, **settings):
            kind = {"grpc": GrpcClient, "rest": RestClient}[protocol]
            client = kind(address, **{"name": "ende", "timeout": 20.0, **settings})
            return stack.enter_context(contextlib.closing(client))

        yield connect
