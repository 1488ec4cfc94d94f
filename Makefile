# Everything works in .venv/ in this folder. `make paper` and `make test` install what they need.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: paper install browser test soak bench lint lock clean

paper: install  ## the paper's experiments, its numbers beside ours
	$(BIN)/recurrank paper --out report

install: .venv/installed

.venv/installed: pyproject.toml requirements.lock
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

browser: install  ## what the tests of pages need beside Chromium: axe-core, with npm
	npm install --silent --no-save --no-audit --no-fund --prefix .venv/axe axe-core@4

test: install  ## all tests; those in a browser are left out, and named, where there is none
	$(BIN)/python -m pytest

soak: install  ## the service's tests in their long form: more kills, more requests, longer stops (about 20 minutes)
	$(BIN)/python -m pytest --soak tests/serving

bench: install  ## every speed and memory claim, as a ratio in one run
	$(BIN)/python -m benchmarks

lint: install  ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

lock:  ## requirements.lock from pyproject.toml (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --extra dev pyproject.toml -o requirements.lock

clean:
	rm -rf .venv report
