PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test check bench clean

demo: $(VENV)/run.stamp
	$(BIN)/chary demo

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest

check: $(VENV)/dev.stamp
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/bench.stamp
	$(BIN)/python benchmarks/run_all.py

clean:
	rm -rf $(VENV) demo-output

$(VENV)/run.stamp: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp
	$(PIP) --editable '.[dev]'
	touch $@

$(VENV)/bench.stamp: $(VENV)/dev.stamp
	$(PIP) --editable '.[dev,peers]'
	touch $@
