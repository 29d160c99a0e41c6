# `make` lists the targets. Each makes the environment it needs, in .venv, when it is missing.

VENV := .venv
BUILDIFIER := npx --yes @bazel/buildifier@8.2.1
BIOME := npx --yes @biomejs/biome@2.6.8
TSC := npx --yes --package typescript@7.0.2 tsc
AXE := axe-core@4.14.1
TEXTLINT := npx --yes -p textlint@15.8.0 -p textlint-rule-terminology@5.2.16 \
    -p textlint-rule-write-good@2.0.0 textlint
PIP_INSTALL := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check
IN_VENV := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"

# $(call quietly,COMMAND): it says nothing unless it fails.
define quietly
	@log=$$(mktemp) && { $(1) >"$$log" 2>&1 || { cat "$$log" >&2; exit 1; }; } && rm -f "$$log"
endef

# $(call install,WHAT); a comma in WHAT would begin another argument.
COMMA := ,
install = $(call quietly,$(PIP_INSTALL) $(1))

# A stamp stands for a finished installation, so that an interrupted one is taken up again.
INSTALLED := $(VENV)/.installed
INSTALLED_TRY := $(VENV)/.installed-try
INSTALLED_TEST := $(VENV)/.installed-test
INSTALLED_LINT := $(VENV)/.installed-lint
INSTALLED_DOCS := $(VENV)/.installed-docs
INSTALLED_RECIPE := $(VENV)/.installed-recipe
INSTALLED_MUTATE := $(VENV)/.installed-mutate
INSTALLED_DIST := $(VENV)/.installed-dist

# What TensorFlow logs, at its import too, does not belong into the outputs of notebooks.
QUIET_NOTEBOOKS := 'c.IPKernelApp.capture_fd_output = False' \
    'c.InteractiveShellApp.exec_lines = ["import logging; logging.disable(logging.INFO)"]'

# The first of these that is Python 3.11 to 3.13 makes the environment; PYTHON=... names another.
PYTHON ?= python3 python3.13 python3.12 python3.11

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help try demo test slow recipe docs notebooks bench wmt mutate lint format dist lock clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1|/p' $(MAKEFILE_LIST) | \
	    while IFS='|' read -r target what; do printf 'make %-9s %s\n' "$$target" "$$what"; done

try: $(INSTALLED_TRY) ## translate English into German: on a page, or what comes on standard input
	@$(IN_VENV) examples/try.sh

demo: $(INSTALLED) ## train, score, average, export and serve a toy translation model (CPU, < 8 min)
	@$(IN_VENV) examples/demo.sh

test: $(INSTALLED_TEST) ## run the tests
	@$(VENV)/bin/python -m pytest -q --numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder

slow: $(INSTALLED_TEST) ## run the tests that take hours: faults, damaged files, load, growth
	@$(VENV)/bin/python -m pytest -q -m slow

recipe: $(INSTALLED_RECIPE) ## make a small student of raw text on the toy problem (CPU, < 10 min)
	@$(IN_VENV) examples/recipe.sh

docs: $(INSTALLED_DOCS) ## run the notebooks and build the documentation into site/ (some minutes)
	$(call quietly,NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --quiet --strict)

notebooks: $(INSTALLED_DOCS) ## run the notebooks and keep what they print and draw
	$(call quietly,$(VENV)/bin/python -m nbconvert --to notebook --execute --inplace \
	    examples/notebooks/*.ipynb)

bench: $(INSTALLED_TEST) ## run the long measurements behind the figures in docs/
	@$(IN_VENV) benchmarks/run.sh

wmt: $(INSTALLED) ## print what repeating WMT 2014 takes: commands, hours and memory for 1, 4 and 8 GPUs
	@$(VENV)/bin/python experiments/wmt/wmt.py

mutate: $(INSTALLED_MUTATE) ## break the code in one place after the other, and expect a test to fail
	@$(VENV)/bin/python benchmarks/mutation.py

lint: $(INSTALLED_LINT) ## check style, types, imports, dead code, prose, scripts and BUILD files (needs npm)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	@# Lines end at "\n" alone (t2t_keras/text/files.py); a comment beside the call says why these do not.
	! grep -rnE '\.splitlines\([^#]*$$' --include='*.py' t2t_keras problems hparams recipes
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo
	$(VENV)/bin/vulture
	$(BUILDIFIER) -mode=check -lint=warn BUILD MODULE.bazel
	$(BIOME) ci --error-on-warnings
	$(TSC) --project jsconfig.json
	@# build/prose has the text of docstrings, comments and messages; build/prose/X.md:N is line N of X.py.
	$(VENV)/bin/python benchmarks/prose.py build/prose
	$(TEXTLINT) README.md CONTRIBUTING.md docs experiments build/prose
	if command -v hadolint >/dev/null; then hadolint docker/*.Dockerfile; fi

format: $(INSTALLED_LINT) ## rewrite Python, JavaScript, CSS and BUILD files as `make lint` wants them (needs npm)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(BUILDIFIER) -mode=fix -lint=fix BUILD MODULE.bazel
	$(BIOME) check --write

dist: $(INSTALLED_DIST) ## build the wheel and the sdist into dist/, and check them
	rm -rf build dist *.egg-info
	$(call quietly,$(VENV)/bin/python -m build)
	$(VENV)/bin/python -m twine check --strict dist/*

lock: $(INSTALLED) ## pin for Bazel, in requirements_lock.txt, what pip chooses today
	$(PIP_INSTALL) --dry-run --ignore-installed --report $(VENV)/lock.json '.[test]'
	$(VENV)/bin/python -c 'import json, sys; \
	    found = [entry["metadata"] for entry in json.load(sys.stdin)["install"]]; \
	    names = {entry["name"]: entry["version"] for entry in found}; \
	    del names["t2t-keras"]; \
	    print(*(f"{name}=={names[name]}" for name in sorted(names, key=str.lower)), sep="\n")' \
	    <$(VENV)/lock.json >$(VENV)/lock.txt
	mv $(VENV)/lock.txt requirements_lock.txt

clean: ## remove the environment, caches and builds
	rm -rf $(VENV) build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): setup.py entry_points.txt
	@[ -x $(VENV)/bin/pip ] || { \
	    python=; \
	    for candidate in $(PYTHON); do \
	        "$$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
	            2>/dev/null && python="$$candidate" && break; \
	    done; \
	    [ -n "$$python" ] || { \
	        echo "None of '$(PYTHON)' is Python 3.11 to 3.13. Install one, or name it:" \
	            "make PYTHON=/path/to/python3.12" >&2; \
	        exit 2; \
	    }; \
	    echo "Making the environment $(VENV) with $$("$$python" --version) ..." >&2; \
	    "$$python" -m venv $(VENV); \
	}
	@echo "Installing the package and TensorFlow into $(VENV): 2 GB, a minute or more ..." >&2
	$(call install,--editable .)
	@touch $@

$(INSTALLED_TRY): $(INSTALLED)
	@echo "Installing CTranslate2 and the server into $(VENV) ..." >&2
	$(call install,--editable '.[ctranslate2$(COMMA)server]')
	@touch $@

$(INSTALLED_TEST): $(INSTALLED)
	@echo "Installing what the tests need into $(VENV) ..." >&2
	$(call install,--editable '.[test]')
	@npm install --silent --no-save --no-audit --no-fund --fetch-retries=1 --prefix $(VENV) $(AXE) || \
	    echo "Without npm and axe-core, tests of accessibility are skipped."
	@touch $@

$(INSTALLED_LINT): $(INSTALLED)
	@echo "Installing the linters into $(VENV) ..." >&2
	$(call install,--editable '.[lint]')
	@touch $@

$(INSTALLED_DIST): $(INSTALLED)
	@echo "Installing what builds packages into $(VENV) ..." >&2
	$(call install,--editable '.[dist]')
	@touch $@

$(INSTALLED_MUTATE): $(INSTALLED_TEST)
	@echo "Installing cosmic-ray into $(VENV) ..." >&2
	$(call install,--editable '.[mutate]')
	@touch $@

$(INSTALLED_RECIPE): $(INSTALLED)
	@echo "Installing Snakemake and CTranslate2 into $(VENV) ..." >&2
	$(call install,--editable '.[recipe]')
	@touch $@

$(INSTALLED_DOCS): $(INSTALLED)
	@echo "Installing what the documentation needs into $(VENV) ..." >&2
	$(call install,--editable '.[docs]')
	@mkdir -p $(VENV)/etc/ipython
	@printf '%s\n' $(QUIET_NOTEBOOKS) >$(VENV)/etc/ipython/ipython_kernel_config.py
	@touch $@
