PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: check
check: $(VENV)/.test  ## lint, types and unit tests (under 3 minutes)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/unit

$(VENV)/.test: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[test]'
	touch $@
