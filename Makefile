# make run    a three-broker cluster, used once by a real client, and stopped again
# make up     the same cluster in the foreground until Ctrl-C
# make test   everything that CI runs (states its minutes below)
# make check  lint, types and unit tests (under 3 minutes)

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest

.PHONY: help run up test check lint types unit contract clients cluster faults spark docker reference clean

help:
	@sed -n 's/^# //p' Makefile

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "odradek: $(PYTHON) is not installed; install Python 3.11 or newer, or say make PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "odradek: $(PYTHON) is older than 3.11; install a newer one, or say make PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "odradek: $(PYTHON) has no venv module; on Debian: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@command -v java >/dev/null || [ -x "$$JAVA_HOME/bin/java" ] || $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[java]'
	@touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@command -v java >/dev/null || [ -x "$$JAVA_HOME/bin/java" ] || $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[java]'
	@touch $@

run: $(VENV)/.dev
	$(BIN)/python -m broker.dev.demo

up: $(VENV)/.dev
	$(BIN)/odradek dev --brokers 3

check: lint types unit

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

unit: $(VENV)/.test  # 2 minutes
	$(PYTEST) tests/unit

test: $(VENV)/.test lint types
	$(PYTEST) tests

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
