# Two commands matter: `make demo` and `make test`. Both set up .venv first; a second run installs nothing.
# The demo needs the core of the package only; `make test`, `check` and `docs` install everything else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
CORE := $(shell find uarch/timing/core tracegen/live_points/core -name '*.[ch]pp')
CORE_STAMP := $(VENV)/.core

# Packages are installed without bytecode (--no-compile): what a program imports is compiled once and kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test tests fuzz check lint docs package setup setup-dev core system browser train-default clean

demo: setup
	$(BIN)/perfvec demo -o demo-out

TEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# Lint and all tests, side by side: mypy, which takes most of a minute without its cache, has one thread.
test: browser setup-dev
	@$(MAKE) --no-print-directory --jobs=2 lint tests

# A file is tested in one process (its fixtures are made once), which has one thread, for more would wait.
tests: setup-dev
	$(TEST)

DAMAGING := tests/tracegen/formats/test_damage.py tests/tracegen/formats/test_champsim.py \
	tests/tracegen/features/test_features_file.py tests/tracegen/gem5/test_gem5_import.py

# Every reader on 10,000 mutated files, 100 kills, what cannot be written: hours. FUZZ names readers, or --cases, --seed.
fuzz: setup-dev
	$(BIN)/python -m tests.fuzz.run $(FUZZ)
	$(BIN)/python -m tests.fuzz.kills
	FUZZ_CASES=10000 $(BIN)/python -m pytest -q tests/test_disk.py tests/test_elsewhere.py $(DAMAGING)

# Lint, types, prose, and the tests that are not marked slow.
check: lint
	$(TEST) -m 'not slow'

lint: setup-dev
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/vermin --target=3.10- --violations --no-tips --quiet support uarch tracegen perfvec analysis  # mypy reads 3.12
	$(BIN)/python tools/check_prose.py

# The documentation as a site, in site/. Its generated pages are written first, and every warning is an error.
docs: setup-dev
	$(BIN)/python tools/write_reference.py
	$(BIN)/mkdocs build --strict

# A wheel and an sdist in dist/, installed into an empty environment and tried there.
package: setup
	$(PIP) 'build>=1'
	sh tools/package.sh $(BIN)/python

setup: system $(STAMP) $(CORE_STAMP)

# The C++ cores, compiled in place. `setup` does it too when a source file of theirs has changed.
core: $(STAMP)
	$(BIN)/python setup.py -q build_ext --inplace
	touch $(CORE_STAMP)

$(CORE_STAMP): setup.py $(CORE) | $(STAMP)
	$(MAKE) core

# QEMU's user mode, compilers, Python's venv and headers: installed through apt where that is allowed, otherwise named.
system:
	@PYTHON=$(PYTHON) sh tools/system-packages.sh

# What only tests need: pages are opened in headless Chromium (skipped where it is absent).
browser:
	@sh tools/system-packages.sh chromium

$(STAMP): pyproject.toml setup.py constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) 'setuptools>=77' 'pybind11>=2.13' torch
	@echo 'installing the package; its C++ cores are compiled: a minute or two'
	$(PIP) --no-build-isolation -e .
	-$(BIN)/perfvec doctor
	touch $(STAMP) $(CORE_STAMP)

setup-dev: setup $(DEV_STAMP)

$(DEV_STAMP): $(STAMP)
	$(PIP) 'perfvec-toolkit[dev]'
	touch $(DEV_STAMP)

# The shipped model, from nothing: trace the machine's programs, label them, train. Resumes after a kill; hours on two cores.
TRAIN := train-out
train-default: setup
	sh tools/train-default.sh $(BIN)/perfvec $(abspath $(TRAIN)) perfvec/weights/default.safetensors $(GEM5)

clean:
	rm -rf $(VENV) demo-out build dist site uarch/timing/_core.*.so tracegen/live_points/_core.*.so
