"""How many sentences an export for CTranslate2 translates in a second.

taskset -c 0 python experiments/student/one_core.py EXPORT TEXT
"""

import statistics
import sys
import time
from pathlib import Path

from t2t_keras.decoding.translator import Translator
from t2t_keras.text.files import read_text

ROUNDS = 5


def main(export: str, text: str) -> None:
    """Prints the median and the range of several rounds, greedily, in int8 as exported."""
    translator = Translator.from_run(export, decode_hparams="beam_size=1", engine="ctranslate2")
    lines = read_text(Path(text))
    translator.translate(lines[:100])
    rates = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        translator.translate(lines)
        rates.append(len(lines) / (time.perf_counter() - start))
    print(
        f"{export}: {statistics.median(rates):.0f} sentences a second "
        f"({min(rates):.0f} to {max(rates):.0f}), {len(lines):,} lines"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
