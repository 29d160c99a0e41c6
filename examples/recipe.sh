#!/usr/bin/env bash
# The recipe "student" on sentences of the demo's grammar: all of its steps, in minutes, on a CPU.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=${1:-runs/recipe}
mkdir -p "$runs/text"
cp recipes/student/config.yaml "$runs/config.yaml"

# 20,000 pairs, 5,000 German sentences for back-translation, and a dev set.
if [ ! -e "$runs/text/dev.de" ]; then
    python - "$runs/text" <<'END'
import itertools
import sys
from pathlib import Path

from t2t_keras import registry

problem = registry.problem("translate_ende_toy")
train = list(itertools.islice(problem.examples("train"), 25_000))
texts = {"train": train[:20_000], "news": train[20_000:], "dev": problem.examples("dev")}
for name, pairs in texts.items():
    for code, side in zip(("en", "de"), zip(*pairs)):
        text = "".join(f"{line}\n" for line in side)
        Path(sys.argv[1], f"{name}.{code}").write_text(text, encoding="utf-8")
END
fi

t2t-recipe student "$runs/config.yaml"
t2t-compare --runs="$runs/work/exports/baseline,$runs/work/exports/student,$runs/work/exports/teacher1" \
    --source="$runs/text/dev.en" --reference="$runs/text/dev.de"
echo
echo "The page is $runs/work/evaluation/dev.toy.html; $runs/config.yaml is to be copied and changed."
