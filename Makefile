# Everything works in .venv/ in this folder. `make paper` installs what the program needs, `make test` the rest.

PYTHON ?= python3
BIN := .venv/bin

# $(call install,WHAT,OPTIONS OF UV): with uv, which needs seconds where pip needs minutes; with pip where there is no uv or it fails.
install = $(BIN)/python -m uv pip install --quiet --python $(BIN)/python $(1) $(2) || \
	{ $(BIN)/python -m ensurepip && $(BIN)/python -m pip install --quiet --disable-pip-version-check $(1); }
UV := install --quiet --disable-pip-version-check --constraint requirements-dev.lock uv

# uv leaves bytecode to the first import, and it is kept even where Python is told not to keep it: without it every start compiles a thousand
# modules. (`make paper` compiles what it imports while it runs; `make install` what a service imports, too; for tests all packages are compiled,
# and our own modules are kept, since tests start hundreds of processes: 0.8 s of processor time each instead of 2.)
KEEP := PYTHONDONTWRITEBYTECODE=
IMPORTED := recurrank.cli.paper, recurrank.experiments.report, recurrank.experiments.runner, recurrank.serving.run, recurrank.dashboard.app, \
	matplotlib.pyplot, matplotlib.backends.backend_pdf

.PHONY: paper install develop browser test soak bench lint docs dist check-dist lock clean

paper: .venv/installed  ## the paper's experiments, its numbers beside ours
	$(KEEP) $(BIN)/recurrank paper --out report

install: .venv/imported  ## what `recurrank` needs, with its report and its service
develop: .venv/developed  ## what tests, lint and benchmarks need too

# Making a pip in the environment takes five seconds, so that uv comes with the pip of $(PYTHON), where that has one.
.venv/installed: pyproject.toml requirements.lock
	$(PYTHON) -m venv --without-pip .venv
	-$(PYTHON) -m pip --python $(BIN)/python $(UV) || { $(BIN)/python -m ensurepip && $(BIN)/python -m pip $(UV); }
	$(call install,--requirement requirements.lock --editable .)
	touch $@

.venv/imported: .venv/installed
	$(KEEP) $(BIN)/python -c "import $(IMPORTED)"
	touch $@

.venv/developed: .venv/installed requirements-dev.lock
	$(call install,--requirement requirements-dev.lock,--compile-bytecode)
	touch $@

browser: develop  ## what the tests of pages and of the client for JavaScript need beside Chromium: axe-core and TypeScript, with npm
	npm install --silent --no-save --no-audit --no-fund --prefix .venv/axe axe-core@4
	npm install --silent --no-package-lock --no-audit --no-fund --prefix clients/js

test: develop  ## all tests; those in a browser are left out, and named, where there is none
	$(KEEP) $(BIN)/python -m pytest --durations=10

soak: develop  ## the service's and the client's tests in their long form: more kills, more requests, longer stops (about 20 minutes)
	$(KEEP) $(BIN)/python -m pytest --soak tests/serving tests/clients

bench: develop  ## every speed and memory claim, as a ratio in one run
	$(KEEP) $(BIN)/python -m benchmarks

lint: develop  ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.15 --no-warn-unused-ignores
	$(BIN)/lint-imports

docs: .venv/documenting  ## the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

.venv/documenting: .venv/installed requirements-docs.lock
	$(call install,--requirement requirements-docs.lock)
	touch $@

dist: develop  ## wheel and source distribution, in dist/
	rm -rf dist
	$(BIN)/uv build --quiet --out-dir dist

check-dist: dist  ## the wheel in clean environments, bare and with each extra alone, on every supported Python found here
	$(BIN)/python .ci/check_dist.py dist

lock: develop  ## requirements*.lock from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --extra report --extra serve pyproject.toml --output-file requirements.lock
	$(BIN)/uv pip compile --quiet --universal --constraint requirements.lock --extra dev pyproject.toml --output-file requirements-dev.lock
	$(BIN)/uv pip compile --quiet --universal --constraint requirements-dev.lock --extra docs pyproject.toml --output-file requirements-docs.lock

clean:
	rm -rf .venv dist report site
