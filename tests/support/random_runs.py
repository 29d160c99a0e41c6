"""A run as t2t-trainer leaves it, without the training."""

import keras
import pytest

from t2t_keras import hyperparameters
from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.run_config import RunConfig

PROBLEM = "parallel_text"
CONFIG = "source_language=en,target_language=de,vocab_size=300"
PAIRS = [
    ("A man sleeps in the house.", "Ein Mann schläft im Haus."),
    ("The woman sees the dog.", "Die Frau sieht den Hund."),
    ("A dog eats.", "Ein Hund frisst."),
    ("The red house is big.", "Das rote Haus ist groß."),
]
HPARAMS = "num_layers=1,d_model=16,d_ff=16,num_heads=2"


@pytest.fixture(scope="session")
def random_run(tmp_path_factory, save_random_run):
    """Directory of a run with random weights and checkpoints at steps 10, 20 and 30."""
    folder = tmp_path_factory.mktemp("random_run")
    for split, pairs in (("train", PAIRS * 20), ("dev", PAIRS[:3]), ("test", PAIRS[2:])):
        for side, language in enumerate(("en", "de")):
            lines = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{split}.{language}").write_text(lines, encoding="utf-8")
    problem = make_problem(PROBLEM, CONFIG)
    generate(problem, folder / "data", folder)
    return save_random_run(problem, folder, steps=(10, 20, 30))


@pytest.fixture(scope="session")
def save_random_run():
    """save_random_run(problem, folder, steps): <folder>/run, on the data in <folder>/data."""

    def save(problem, folder, steps):
        record = RunConfig(
            problem=problem,
            model="transformer",
            hparams=hyperparameters.hparams("transformer_tiny", HPARAMS),
            random_seed=1,
            data_dir=str(folder / "data"),
        ).with_data(open_generated(problem, folder / "data"))
        record.save(folder / "run")
        for step in steps:
            keras.utils.set_random_seed(step)
            model = record.make_model()
            model.embedding.table.embeddings.assign(2.0 * model.embedding.table.embeddings.numpy())
            Checkpoints(folder / "run", {"model": model}, keep=3).save(step)
        return folder / "run"

    return save
