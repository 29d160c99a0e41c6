"""The files of this project that one sentence, and two steps of training, pass through.

python benchmarks/code_map.py           # writes both lists into docs/code_map.md
python benchmarks/code_map.py --print   # prints them, with the functions of each file

A function counts if Python calls it while `Translator.from_run(run).translate([sentence])` or
`train(...)` runs; comprehensions, lambdas and bodies of classes do not.
"""

import ast
import contextlib
import inspect
import os
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "code_map.md"
_FOLDERS = tuple(f"{ROOT / name}{os.sep}" for name in ("t2t_keras", "problems", "hparams"))
_PAIRS = [("A man sleeps.", "Ein Mann schläft."), ("The dog eats.", "Der Hund frisst.")]
_SETTINGS = "num_layers=1,d_model=16,d_ff=16,num_heads=2,batch_tokens=256"


@contextlib.contextmanager
def traced():
    """Yields a dictionary, which collects the names of the functions that run, by file."""
    functions: dict[str, dict[str, None]] = {}

    def record(frame, *_):  # Called for Python functions alone; a profiler would hear of all calls.
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_OPTIMIZED and "<" not in code.co_name
        if is_function and code.co_filename.startswith(_FOLDERS):
            file = os.path.relpath(code.co_filename, ROOT)
            functions.setdefault(file, {})[code.co_qualname] = None

    threading.settrace(record)
    sys.settrace(record)
    try:
        yield functions
    finally:
        sys.settrace(None)
        threading.settrace(None)


def trace(folder: Path) -> dict[str, dict[str, dict[str, None]]]:
    """Returns the functions of "sentence" and "training", by file, in the order of their calls."""
    import t2t_keras as t2t

    for side, language in enumerate(("en", "de")):
        lines = "".join(f"{pair[side]}\n" for pair in _PAIRS)
        for split, times in (("train", 40), ("dev", 1)):
            (folder / f"{split}.{language}").write_text(lines * times, encoding="utf-8")
    problem = t2t.problem("parallel_text", "source_language=en,target_language=de,vocab_size=290")
    t2t.generate_data(problem, folder / "data", folder)
    hparams = t2t.hparams("transformer_tiny", _SETTINGS)
    with traced() as training:
        t2t.train(problem, hparams, folder / "data", folder / "run", train_steps=2)
    with traced() as sentence:
        t2t.Translator.from_run(folder / "run").translate([_PAIRS[0][0]])
    return {"sentence": sentence, "training": training}


def file_list(functions: dict[str, dict[str, None]]) -> str:
    """Returns a line of Markdown for each file: its number of functions, and its summary."""
    lines = []
    for number, (file, names) in enumerate(functions.items(), 1):
        docstring = ast.get_docstring(ast.parse((ROOT / file).read_text("utf-8"))) or ""
        summary = docstring.partition("\n")[0].rstrip(".")
        lines.append(f"{number}. `{file}` ({len(names)}): {summary}\n")
    return "".join(lines)


def count_text(functions: dict[str, dict[str, None]]) -> str:
    """Returns the numbers of files and functions, as text."""
    return f"{len(functions)} files, {sum(map(len, functions.values()))} functions"


def replace_section(page: str, name: str, text: str) -> str:
    """Returns a page with new text between the two comments with a name."""
    head, begin, rest = page.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- end of {name} -->\n")
    return f"{head}{begin}\n{text}\n{end}{after}"


def main() -> None:
    """Traces, and writes or prints both lists."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        traces = trace(Path(folder))
    for name, functions in traces.items():
        print(f"{name}: {count_text(functions)}")
        if "--print" in sys.argv:
            for file, names in functions.items():
                print(f"  {file}: {len(names)}\n    {' '.join(names)}")
    if "--print" not in sys.argv:
        page = PAGE.read_text("utf-8")
        for name, functions in traces.items():
            text = f"{count_text(functions)}:\n\n{file_list(functions)}"
            page = replace_section(page, name, text)
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
