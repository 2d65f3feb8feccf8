# Everything runs in .venv; each target installs what it needs first.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test check bench clean

demo: $(VENV)/.demo ## train and evaluate the default experiment
	$(PY) -m embedexp

test: $(VENV)/.test ## the whole test suite
	$(PY) -m pytest --ignore tests/cluster
	$(PY) -m pytest -n 2 tests/cluster # alone, since it waits for a scheduler; skipped without one

check: $(VENV)/.test ## style and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

bench: $(VENV)/.test ## comparisons with named peers, about two hours; QUICK=1 only tries them
	$(PY) benchmarks $(if $(QUICK),--tiny)

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)
	@echo "installing into $(VENV); the first time takes a few minutes"
	$(INSTALL) --editable '.[offline,wandb]'
	@touch $@

$(VENV)/.test: $(VENV)/.demo
	$(INSTALL) --editable '.[offline,wandb,test]'
	@touch $@

$(VENV):
	$(PYTHON) -m venv $(VENV)

clean: ## remove the environment and caches; runs/ stays
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache build dist
