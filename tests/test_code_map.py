"""The way of a sentence and of a training step in docs/code_map.md is the one that is traced."""

import json
import runpy
import subprocess
import sys

TRACE = """
import json, runpy, sys
from pathlib import Path
made = runpy.run_path(sys.argv[1])
ways = made["trace"](Path(sys.argv[2]))
print(json.dumps({name: list(functions) for name, functions in ways.items()}))
"""


def test_the_page_lists_the_files_of_each_way(root, tmp_path):
    script = root / "benchmarks" / "code_map.py"
    call = [sys.executable, "-c", TRACE, str(script), str(tmp_path)]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    page = (root / "docs" / "code_map.md").read_text("utf-8")
    for name, files in json.loads(done.stdout.splitlines()[-1]).items():
        part = page.partition(f"<!-- {name} -->")[2].partition(f"<!-- end of {name} -->")[0]
        assert [file for file in files if f"`{file}`" not in part] == []
        assert part.count("t2t_keras/") == sum(file.startswith("t2t_keras/") for file in files)
    replace_section = runpy.run_path(str(script))["replace_section"]
    assert replace_section("a\n<!-- b -->\nold\n<!-- end of b -->\n", "b", "new").count("new") == 1
