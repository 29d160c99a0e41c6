"""Breaks the code in one place after another; a test should fail each time.

    make mutate                                                # all parts in pyproject.toml
    python benchmarks/mutation.py --target=layers --every=5    # a fifth of the mutants of one part

cosmic-ray makes the mutants. In its own runner, importing TensorFlow takes longer than the tests;
mutmut forks after TensorFlow has started threads. Here each mutant runs in a fork of a process that
has imported TensorFlow and computed nothing. Survivors are printed; if fewer than `minimum_score`
percent are killed, the exit status is 1. The next call continues from build/mutation.jsonl: delete
that file after changing tests, or retry only survivors with `--retry`.
"""

import argparse
import collections
import difflib
import hashlib
import importlib
import json
import os
import resource
import signal
import sys
import time
import tomllib
from importlib.machinery import SourceFileLoader
from pathlib import Path

import cosmic_ray.plugins
from cosmic_ray.mutating import mutate_code

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "build" / "mutation.jsonl"
_OUTCOMES = {0: "survived", -signal.SIGALRM: "timed out", -signal.SIGXCPU: "timed out"}


def mutants(path, operators):
    """Yields each distinct mutant of a file: a unique key, the operator and the source."""
    source = path.read_text("utf-8")
    seen = {source}
    for name in operators:
        operator, occurrence = cosmic_ray.plugins.get_operator(f"core/{name}")(), 0
        while (mutated := mutate_code(source, operator, occurrence)) is not None:
            # NumberReplacer adds one to a number, then subtracts one: skip the second.
            occurrence += 2 if name == "NumberReplacer" else 1
            if mutated not in seen:
                seen.add(mutated)
                yield hashlib.sha256(mutated.encode()).hexdigest(), name, mutated


def replace_source(path, source):
    """Makes Python load the module of a file from another source."""
    module, get_code = ".".join(path.with_suffix("").parts), SourceFileLoader.get_code

    def get_mutated_code(loader, name):
        return compile(source, path, "exec") if name == module else get_code(loader, name)

    SourceFileLoader.get_code = get_mutated_code


def start(tests, seconds, path=None, source=""):
    """Forks a process that runs the tests, on a mutant if `path` is set; returns the process id."""
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        # Of processor time, as other work may slow the tests; the alarm ends those that wait.
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        signal.alarm(10 * seconds)
        for descriptor in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        if path:
            replace_source(path, source)
            # The module's own tests come first, as they fail soonest.
            tests = [*map(str, Path("tests").rglob(f"test_{path.stem}.py")), *tests]
        import pytest

        status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
    finally:
        os._exit(status)


def run(target, operators, known_outcomes, options):
    """Runs a target's mutants of unknown outcome, prints survivors; returns counts of outcomes."""
    paths = [path for pattern in target["modules"] for path in sorted(Path().glob(pattern))]
    all_mutants = [(path, *mutant) for path in paths for mutant in mutants(path, operators)]
    all_mutants = all_mutants[:: options.every]
    pending = [mutant for mutant in all_mutants if mutant[1] not in known_outcomes]
    print(f"{target['name']}: {len(all_mutants)} mutants, {len(pending)} to run", flush=True)
    start_time = time.monotonic()
    if pending and os.waitpid(start(target["tests"], 3600), 0)[1]:
        sys.exit(f"{target['name']}: the tests fail on the code as it is.")
    seconds, running = 30 + round(5 * (time.monotonic() - start_time)), {}
    while pending or running:
        while pending and len(running) < options.jobs:
            path, key, _, source = mutant = pending.pop()
            running[start(target["tests"], seconds, path, source)] = mutant
        process, status, usage = os.wait3(0)
        path, key, operator, source = running.pop(process)
        code = os.waitstatus_to_exitcode(status)
        known_outcomes[key] = _OUTCOMES.get(code, "killed")
        entry = dict(key=key, outcome=known_outcomes[key], path=str(path))
        entry["processor_seconds"] = round(usage.ru_utime + usage.ru_stime, 1)
        with RESULTS.open("a", encoding="utf-8") as file:
            print(json.dumps(entry), file=file)
        print(".", end="", flush=True)
    for path, key, operator, source in all_mutants:
        if known_outcomes[key] != "killed":
            versions = path.read_text("utf-8").splitlines(), source.splitlines()
            diff = list(difflib.unified_diff(*versions, n=0))[2:]
            print(f"\n{known_outcomes[key]}: {path}, {operator}", *diff, sep="\n    ")
    for path in paths:
        keys = [key for mutated_path, key, *_ in all_mutants if mutated_path == path]
        outcomes = collections.Counter(map(known_outcomes.get, keys))
        print(f"{path}: {dict(outcomes)}", flush=True)
    return collections.Counter(known_outcomes[key] for _, key, *_ in all_mutants)


def main():
    """Runs the targets and prints the score."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", help="name of the only target to run")
    parser.add_argument("--every", type=int, default=1, help="run only every n-th mutant")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants at once")
    parser.add_argument("--retry", action="store_true", help="run the survivors again")
    options = parser.parse_args()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mutation"]
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    for threads in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        os.environ[threads] = "1"
    for package in settings["imports"]:  # Once, for all forks.
        importlib.import_module(package)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.touch()
    entries = map(json.loads, RESULTS.read_text("utf-8").splitlines())
    known_outcomes = {entry["key"]: entry["outcome"] for entry in entries}
    if options.retry:
        known_outcomes = {key: o for key, o in known_outcomes.items() if o == "killed"}
    targets = [t for t in settings["targets"] if options.target in (None, t["name"])]
    counts = [run(target, settings["operators"], known_outcomes, options) for target in targets]
    outcomes = sum(counts, collections.Counter())
    score = 100 * (1 - outcomes["survived"] / max(outcomes.total(), 1))
    timed_out = outcomes["timed out"]
    print(f"\n{score:.1f} % of {outcomes.total()} mutants killed ({timed_out} by time).")
    sys.exit(score < settings["minimum_score"])


if __name__ == "__main__":
    main()
