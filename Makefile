# Two commands are enough: `make demo` and `make test`. Both set themselves up in .venv, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Workers are processes of one thread each; OpenMP reads this before torch is imported.
export PIP_CONSTRAINT := $(CURDIR)/requirements.lock
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint types docs clean help

help:  ## what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 8

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Whence needs Python 3.11 or newer, got " + sys.version.split()[0] + ". Call: make PYTHON=python3.11 …")'
	@echo "Setting up $(VENV) (once, about two minutes) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -qq -r requirements.lock
	@$(BIN)/pip install -qq --no-deps --no-build-isolation -e .
	@touch $@

demo: $(STAMP)  ## pictures under interventions in; causes, their graph and a report out
	@$(BIN)/whence demo

test: $(STAMP)  ## the test suite
	@$(BIN)/python -m pytest -n 2 $(ARGS)

lint: $(STAMP)  ## ruff
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(STAMP)  ## mypy on src
	@$(BIN)/mypy

docs: $(STAMP)  ## the documentation site, into site/
	@$(BIN)/python docs/build.py

clean:  ## the environment and everything built
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
