# Two commands matter: `make demo` and `make test`. Both set up .venv first; a second run installs nothing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CORE := $(shell find uarch/timing/core -name '*.[ch]pp')
CORE_STAMP := $(VENV)/.core

.PHONY: demo test fuzz check setup core system browser train-default clean

demo: setup
	$(BIN)/perfvec demo -o demo-out

# A file's tests stay together; each process has one thread, for more would wait for one another.
test: browser setup
	$(MAKE) check
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

# Every reader on 10,000 mutated files, 100 kills, what cannot be written: hours. FUZZ names readers, or --cases, --seed.
fuzz: setup
	$(BIN)/python -m tests.fuzz.run $(FUZZ)
	$(BIN)/python -m tests.fuzz.kills
	$(BIN)/python -m pytest -q tests/test_disk.py tests/test_elsewhere.py

check: setup
	$(BIN)/ruff check .
	$(BIN)/mypy

setup: system $(STAMP) $(CORE_STAMP)

# The timing model's C++ core, compiled in place. `setup` does it too when a source file of the core has changed.
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

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,train,search,dask,experiment,tensor,tensor-models]'
	touch $(STAMP) $(CORE_STAMP)

# The shipped model, from nothing: trace the machine's programs, label them, train. Resumes after a kill; hours on two cores.
TRAIN := train-out
train-default: setup
	sh tools/train-default.sh $(BIN)/perfvec $(abspath $(TRAIN)) perfvec/weights/default.safetensors $(GEM5)

clean:
	rm -rf $(VENV) demo-out build uarch/timing/_core.*.so
