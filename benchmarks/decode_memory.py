"""The most memory that translating a file takes, by the number of its lines.

    python benchmarks/decode_memory.py
    python benchmarks/decode_memory.py --output_dir=RUN --lines=2000,20000

Each file is translated, with word alignments, in a process of its own. Without --output_dir, by a
very small model with random weights. Megabytes are 10^6 bytes, of the whole process at its peak.
"""

import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from absl import app, flags
from peak_memory import peak_bytes

from t2t_keras.environment import prepare_tensorflow

prepare_tensorflow()

_RUN = flags.DEFINE_string("output_dir", "", "The run that translates.")
_LINES = flags.DEFINE_list("lines", ["2000", "20000", "200000"], "Lines of the files.")
_FILE = flags.DEFINE_string("file", "", "A file to translate in this process.")


def main(_) -> None:
    """Measures every file in a child, or the one that is given in this process."""
    if _FILE.value:
        print(json.dumps(_measured(Path(_FILE.value))))
        return
    sentences = _sentences()
    print("| lines | megabytes | seconds |")
    print("|---|---|---|")
    for lines in map(int, _LINES.value):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "source"
            with source.open("w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in itertools.islice(sentences, lines))
            found = _in_a_child(source)
        print(f"| {lines:,} | {found['megabytes']:,.0f} | {found['seconds']:,.0f} |", flush=True)


def _sentences():
    """Returns the sentences of a toy grammar, over and over."""
    from t2t_keras import registry

    problem = registry.problem("translate_ende_toy")
    return itertools.cycle([source for source, _ in problem.examples("dev")])


def _in_a_child(source: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, f"--file={source}", f"--output_dir={_RUN.value}"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def _measured(source: Path) -> dict[str, float]:
    from t2t_keras.decoding.files import translate_file

    translator = _translator()
    start = time.perf_counter()
    outputs = [source.with_name(name) for name in ("translations", "alignments")]
    translate_file(translator, source, outputs[0], made_by={}, alignments=outputs[1])
    seconds = time.perf_counter() - start
    return dict(megabytes=peak_bytes() / 1e6, seconds=seconds)


def _translator():
    from t2t_keras.decoding.translator import Translator

    if _RUN.value:
        return Translator.from_run(_RUN.value)
    import keras

    from t2t_keras.data.tokenizer import Tokenizer
    from t2t_keras.decoding.config import decode_config
    from t2t_keras.models.transformer import Transformer

    tokenizer = Tokenizer.train(itertools.islice(_sentences(), 500), 500)
    keras.utils.set_random_seed(1)
    model = Transformer(tokenizer.vocab_size, num_layers=2, d_model=16, d_ff=16, num_heads=2)
    model.build()
    return Translator(model, tokenizer, decode_config("beam_size=2,extra_length=2"))


if __name__ == "__main__":
    app.run(main)
