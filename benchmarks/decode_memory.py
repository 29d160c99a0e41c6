"""Peak memory of translating a file, by the number of its lines.

    python benchmarks/decode_memory.py
    python benchmarks/decode_memory.py --output_dir=RUN --lines=2000,20000

Each file is translated, with word alignments, in a process of its own. Without --output_dir, by a
very small model with random weights. Megabytes are 10^6 bytes, of the whole process at its peak.
"""

import itertools
import tempfile
import time
from pathlib import Path

from absl import app, flags
from measuring import in_own_process, peak_bytes, small_translator

_RUN = flags.DEFINE_string("output_dir", "", "Run that translates.")
_LINES = flags.DEFINE_list("lines", ["2000", "20000", "200000"], "Lines of the files.")


def main(_) -> None:
    """Measures every file."""
    print("| lines | megabytes | seconds |")
    print("|---|---|---|")
    for lines in map(int, _LINES.value):
        megabytes, seconds = in_own_process(_measured, lines, _RUN.value)
        print(f"| {lines:,} | {megabytes:,.0f} | {seconds:,.0f} |", flush=True)


def _measured(lines: int, run: str) -> tuple[float, float]:
    """Returns megabytes and seconds."""
    from t2t_keras import registry
    from t2t_keras.decoding.jobs.files import translate_file
    from t2t_keras.decoding.translator import Translator

    toy = [source for source, _ in registry.problem("translate_ende_toy").examples("dev")]
    translator = Translator.from_run(run) if run else small_translator(toy[:500])
    with tempfile.TemporaryDirectory() as folder:
        source, target, alignments = (Path(folder) / name for name in "abc")
        with source.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in itertools.islice(itertools.cycle(toy), lines))
        start = time.perf_counter()
        translate_file(translator, source, target, provenance={}, alignments=alignments)
        return peak_bytes() / 1e6, time.perf_counter() - start


if __name__ == "__main__":
    app.run(main)
