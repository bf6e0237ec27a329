# `make demo` and `make test` set everything up by themselves; they need Python >= 3.10 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test quick lint types docs bench mutate clean

demo: $(READY)
	$(BIN)/droptics demo --out droptics-demo

test: lint types
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

quick: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[test,docs]"
	touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis droptics-demo droptics-out docs/_build docs/generated

docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

bench: $(READY)
	for script in benchmarks/bench_*.py; do OMP_NUM_THREADS=1 $(BIN)/python $$script || exit 1; done

mutate: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutations.py
