# Every target makes .venv and installs what it needs, once: the stamp files say what is there already.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
SOURCES := src tests benchmarks studies examples website

.PHONY: help install demo test bench docs gallery dist check format lint types clean

help:
	@echo "make install   .venv with metasym and its command line, .venv/bin/metasym"
	@echo "make demo      install, then run the demo"
	@echo "make test      install with the test oracles, then run the tests"
	@echo "make bench     install with the rivals, then time every row and every discovery problem (13 minutes)"
	@echo "make docs      install with mkdocs, then build the site into site/ and check its links; open site/index.html"
	@echo "make gallery   run the examples and write their pages; EXAMPLE=name for one"
	@echo "make dist      the sdist and the wheel, in dist/"
	@echo "make check     format, lint, strict types on src, and the tests"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("metasym needs Python 3.11 or newer, found " + sys.version.split()[0]) if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv $(VENV)

# setuptools is installed first and build isolation is off: an isolated build would not see the pins.
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) setuptools wheel
	$(PIP) --no-build-isolation -e .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(PIP) --no-build-isolation -e '.[test]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed-test
	$(PIP) --no-build-isolation -e '.[test,dev]'
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	$(PIP) --no-build-isolation -e '.[bench]'
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP) --no-build-isolation -e '.[docs]'
	@touch $@

# The extras that the examples' pages name.
$(VENV)/.installed-gallery: $(VENV)/.installed-docs
	$(PIP) --no-build-isolation -e '.[docs,onnx,simulators]'
	@touch $@

install: $(VENV)/.installed

demo: install
	$(BIN)/metasym demo

# One worker more than cores: workers often wait for the processes that they start.
WORKERS = $$($(BIN)/python -c 'import os; print((os.cpu_count() or 1) + 1)')

test: $(VENV)/.installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks discovering

# The theme's maker advertises a successor at every build; strict builds stay readable without it.
docs: $(VENV)/.installed-docs
	PYTHONPATH=. NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --clean
	$(BIN)/python -m website.check site

gallery: $(VENV)/.installed-gallery
	OMP_NUM_THREADS=1 $(BIN)/python -m website.gallery $(EXAMPLE)

dist: $(VENV)/.installed-docs
	$(BIN)/python -m build --no-isolation --outdir dist .

format: $(VENV)/.installed-dev
	$(BIN)/ruff format --check $(SOURCES)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/codespell *.md docs $(SOURCES)

types: $(VENV)/.installed-dev
	$(BIN)/mypy

check: format lint types test

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
