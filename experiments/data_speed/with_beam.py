"""Do worker processes and Apache Beam make the same data?

    python experiments/data_speed/with_beam.py --text=DATA --pairs=4500000
        [--beam_runner=DirectRunner] [--beam_pipeline_options=name=value,...]

Takes the flags of datagen_scale.py, which makes the text. Both make the data of the
largest corpus, with and without the filter of duplicates. Prints seconds, memory and the number of
files that differ; fails if any does.
"""

import filecmp
import functools
import shutil
import sys
import tempfile
from pathlib import Path

from absl import app, flags

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import datagen_scale
from measuring import in_own_process

_RUNNER = flags.DEFINE_string("beam_runner", "DirectRunner", "Runner of Apache Beam.")
_OPTIONS = flags.DEFINE_list("beam_pipeline_options", [], "Options of the runner.")


def main(_) -> None:
    """Learns a vocabulary, makes the data both ways, and compares the files."""
    values = flags.FLAGS
    pairs, workers = max(map(int, values.pairs)), values.num_workers
    beam = dict(beam_runner=_RUNNER.value, beam_pipeline_options=_OPTIONS.value)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(values.folder or temporary)
        datagen_scale.assemble(folder, pairs)

        def run(config: str, **options):
            way = functools.partial(datagen_scale.run_datagen, **options)
            return in_own_process(way, folder, pairs, config, workers)

        sizes = dict(vocab_size=values.vocab_size, vocab_lines=values.vocab_lines)
        sizes["vocab_kind"] = values.vocab_kind
        run(",".join(f"{name}={value}" for name, value in sizes.items()))
        vocabulary = folder / "data" / "parallel_text" / "vocab.model"
        vocabulary = shutil.copy(vocabulary, folder / "vocab.model")
        for filters in ("duplicates", ""):
            config = f"filters={filters},vocab_file={vocabulary}"
            local, by_beam = run(config), run(config, **beam)
            print(
                f"{filters or 'no filter'}: {_compare(folder)}; "
                f"{workers} workers: {local.encoding:.0f} s, {local.busy:.0f} s of processor; "
                f"{_RUNNER.value}: {by_beam.encoding:.0f} s, {by_beam.busy:.0f} s of processor, "
                f"peak memory {by_beam.main:,.0f} MB",
                flush=True,
            )


def _compare(folder: Path) -> str:
    """Returns the number of files and their size; exits if the two folders are not equal."""
    one, other = (folder / name / "parallel_text" for name in ("data", "beam"))
    names = sorted({path.name for side in (one, other) for path in side.iterdir()} - {".lock"})
    _, different, missing = filecmp.cmpfiles(one, other, names, shallow=False)
    if different or missing:
        raise SystemExit(f"Not equal: {', '.join([*different, *missing])}")
    size = sum((one / name).stat().st_size for name in names)
    return f"{len(names):,} equal files, {size / 1e6:,.0f} MB"


if __name__ == "__main__":
    app.run(main)
