# Needs make and Python >= 3.11, nothing else. `make` lists the targets; `make run PYTHON=python3.13` picks a Python,
# `make run SIZE=smoke` a shorter quick start.
PYTHON ?= python3
VENV ?= .venv
PYTEST_FLAGS ?= -n auto

# An activated environment must not be mistaken for ours: only $(BIN) is used.
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
C_SOURCES = $(shell find dpu_src swiftrl_core tests -name '*.c' -o -name '*.h' -o -name '*.cu')
NOTEBOOKS = $(wildcard notebooks/*.ipynb)
STRIP := nbstripout --keep-id --extra-keys "metadata.papermill cell.metadata.papermill"
QUICKSTART := results/01_quickstart
SIZE ?= quick

# One line for a check that passes, and all of its output for one that fails.
check = @output=$$($(2) 2>&1) && echo "ok  $(1)" || { echo "$$output"; echo "failed: $(1)"; exit 1; }

.DELETE_ON_ERROR:
.PHONY: help run test test-slow mutants lint format docs lab notebooks figures paper bench validate clean

help: ## this list
	@awk -F ':[^#]*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

run: $(VENV)/.installed ## run the quick start: FrozenLake learned on 64 simulated DPUs
	@mkdir -p $(QUICKSTART)
	$(BIN)/python -m papermill notebooks/01_quickstart.ipynb $(QUICKSTART)/01_quickstart.ipynb -p size $(SIZE)
	@echo "Figures:" && ls $(QUICKSTART)/*.png
	@echo "Executed notebook: $(QUICKSTART)/01_quickstart.ipynb"

test: lint ## check the style and run the tests
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

test-slow: $(VENV)/.installed-dev ## run the slow tests that `make test` leaves out
	$(BIN)/python -m pytest $(PYTEST_FLAGS) -m "slow and not gpu and not hardware and not browser"

mutants: $(VENV)/.installed-dev ## change a sample of operators and numbers and count what the tests notice (an hour)
	$(BIN)/python tests/mutate.py

lint: $(VENV)/.installed-dev ## check the style of Python, C and notebooks, and the order of imports
	$(call check,Python style,$(BIN)/ruff check)
	$(call check,Python format,$(BIN)/ruff format --check)
	$(call check,order of imports,$(BIN)/lint-imports --no-cache --no-logo)
	$(call check,C format,$(BIN)/clang-format --dry-run -Werror $(C_SOURCES))
	$(call check,notebooks without output,$(BIN)/$(STRIP) --verify $(NOTEBOOKS))

format: $(VENV)/.installed-dev ## rewrite Python, C and notebooks in the style that lint checks
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(C_SOURCES)
	$(BIN)/$(STRIP) $(NOTEBOOKS)

docs: $(VENV)/.installed-docs ## build the documentation into docs/_build/html; warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "Documentation: docs/_build/html/index.html"

lab: $(VENV)/.installed ## open JupyterLab on the notebooks
	$(BIN)/jupyter lab --notebook-dir=notebooks

notebooks: $(VENV)/.installed ## run all notebooks in their smallest size
	$(BIN)/swiftrl experiment notebook all --size smoke --timeout 600 --workers 2

figures: $(VENV)/.installed ## redraw the figures of stored results without running anything
	$(BIN)/swiftrl figures results

paper: $(VENV)/.installed ## run or continue the experiments in the paper's sizes; prints an estimate of the time first
	$(BIN)/swiftrl experiment run all --size paper --dry-run
	$(BIN)/swiftrl experiment run all --size paper
	$(BIN)/swiftrl experiment notebook all --size paper --skip-done

bench: $(VENV)/.installed-dev ## measure how fast this machine simulates and learns
	$(BIN)/swiftrl bench

validate: $(VENV)/.installed ## validate the simulator against published hardware numbers
	$(BIN)/swiftrl validate

clean: ## remove what make and the tools made; results stay
	rm -rf $(VENV) build dist .pytest_cache .hypothesis .ruff_cache docs/_build docs/generated docs/notebooks
	find dpu_src swiftrl_core tests notebooks -name __pycache__ -prune -exec rm -rf {} +

# The stamps are written last, so an interrupted installation is repeated.
$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "swiftrl needs Python >= 3.11, and $(PYTHON) is " + sys.version.split()[0] + ": make PYTHON=/path/to/a/newer/python3")'
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP_INSTALL) -e '.[dev]'
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP_INSTALL) -e '.[docs]'
	@touch $@
