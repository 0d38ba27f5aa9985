PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
MINUTES ?= 60
REQUESTS ?= 10000
SINCE ?= HEAD
ENGINES ?= spark
export SHARE ?= 0.15
DATA ?= $(wildcard ../shared/data)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo dist docs docs-serve test quick changed test-engines check style soak open-api reproduce bench bench-guard figures screenshots constraints clean

demo: $(VENV)/run.stamp
	$(BIN)/chary demo

# Wheels for machines without the checkout, each tried in an environment of its own.
dist: $(VENV)/run.stamp
	rm -rf dist build/lib client/build research/build
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist . ./client ./research
	PYTHON=$(PYTHON) .ci/wheels dist

docs: $(VENV)/docs.stamp
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -d build/docs/doctrees docs build/docs/html

docs-serve: docs
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/docs/html 8000

test: $(VENV)/dev.stamp
	.ci/in-memory $(BIN)/python -m pytest --numprocesses auto --dist worksteal

# Units, exact laws, one ledger and one engine, before each commit: about two minutes.
quick: $(VENV)/dev.stamp
	.ci/in-memory $(BIN)/python -m pytest --numprocesses auto --dist worksteal -m "not statistical and not engines" \
	  -k "not postgres and not OnAServer" $(addprefix tests/,noise filters golden ledger $(addprefix data/,domain files predicates \
	  queries rows) $(addprefix calls/,algorithms selection sparse thresholds votes))

# The tests that what changed since a commit can concern.
changed: $(VENV)/dev.stamp
	.ci/in-memory $(BIN)/python -m tests.changed $(SINCE) --numprocesses auto --dist worksteal

# Needs Java 17 for Spark, and programs of PostgreSQL for PostgreSQL; what is missing is skipped, and said.
test-engines: $(VENV)/engines.stamp
	$(BIN)/python -m pytest -m engines tests/engines tests/conformance/test_engines.py tests/data/engines -k "$(ENGINES)"

check: $(VENV)/dev.stamp
	$(BIN)/ruff check src research tests benchmarks docs/*.py
	$(BIN)/ruff format --check src research tests benchmarks docs/*.py
	$(BIN)/mypy
	$(BIN)/lint-imports

# What of the prose breaks the rules of words; `make test` holds each folder to what docs/style/allowed.toml still allows.
style: $(VENV)/dev.stamp
	$(BIN)/python -m tests.docs.style

soak: $(VENV)/dev.stamp
	$(BIN)/python -m tests.soak --minutes $(MINUTES)

open-api: $(VENV)/dev.stamp
	REQUESTS=$(REQUESTS) $(BIN)/python -m pytest tests/service/test_open_api.py

reproduce: $(VENV)/dev.stamp
	rm -rf build/reproduced
	$(BIN)/chary reproduce --all --quick --output build/reproduced $(addprefix --data ,$(DATA))

bench: $(VENV)/bench.stamp
	$(BIN)/python benchmarks/run_all.py

bench-guard: $(VENV)/dev.stamp
	$(BIN)/python benchmarks/guard.py

figures: $(VENV)/dev.stamp
	$(BIN)/python -m tests.figures

# Needs the system's Chromium.
screenshots: $(VENV)/dev.stamp
	$(BIN)/python -m tests.browser.screenshots

constraints:
	rm -rf build/constraints
	$(PYTHON) -m venv build/constraints
	build/constraints/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs,peers,spark]' --editable research
	build/constraints/bin/python -m pip freeze --exclude-editable --disable-pip-version-check > constraints.txt

clean:
	rm -rf $(VENV) build dist demo-output

$(VENV)/run.stamp: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[plots]'
	touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp research/pyproject.toml
	$(PIP) --editable '.[dev]' --editable research
	touch $@

$(VENV)/docs.stamp: $(VENV)/run.stamp research/pyproject.toml
	$(PIP) --editable '.[docs]' --editable research
	touch $@

$(VENV)/engines.stamp: $(VENV)/dev.stamp
	$(PIP) --editable '.[dev,spark]' --editable research
	touch $@

$(VENV)/bench.stamp: $(VENV)/dev.stamp
	$(PIP) --editable '.[dev,peers]' --editable research
	touch $@
