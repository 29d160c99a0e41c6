"""Runs as t2t-trainer leaves them, of tiny models with random weights."""

import keras

from t2t_keras import hyperparameters
from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.run_config import RunConfig

PAIRS = [
    ("A man sleeps in the house.", "Ein Mann schläft im Haus."),
    ("The woman sees the dog.", "Die Frau sieht den Hund."),
    ("A dog eats.", "Ein Hund frisst."),
    ("The red house is big.", "Das rote Haus ist groß."),
]


class TinyRun:
    """A run from English to German, whose model has another checkpoint after each `save`.

    Attributes:
      path: of the run.
    """

    def __init__(self, folder):
        self.path = folder / "run"
        for split in ("train", "dev"):
            for side, language in enumerate(("en", "de")):
                lines = "".join(f"{pair[side]}\n" for pair in PAIRS * 20)
                (folder / f"{split}.{language}").write_text(lines, encoding="utf-8")
        config = "source_language=en,target_language=de,vocab_size=300"
        problem = make_problem("parallel_text", config)
        generate(problem, folder / "data", folder)
        hparams = hyperparameters.hparams(
            "transformer_tiny", "num_layers=1,d_model=16,d_ff=16,num_heads=2"
        )
        self._record = RunConfig(
            problem=problem,
            model="transformer",
            hparams=hparams,
            random_seed=1,
            data_dir=str(folder / "data"),
        ).with_data(open_generated(problem, folder / "data"))
        self._record.save(self.path)

    def save(self, step, factor=1.0):
        """Writes a checkpoint with other weights, and embeddings times a factor."""
        keras.utils.set_random_seed(step)
        model = self._record.make_model()
        # It makes words, and no bytes.
        matrix = model.embedding.table.embeddings.numpy()
        for piece, number in self._record.tokenizer.vocabulary().items():
            matrix[number] *= 0.0 if piece.startswith("<0x") else 4.0 if piece[0] == "▁" else 2.0
        model.embedding.table.embeddings.assign(factor * matrix)
        Checkpoints(self.path, {"model": model}, keep=3).save(step)
