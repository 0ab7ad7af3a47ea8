# Two commands matter: `make demo` and `make test`. Both set up .venv first; a second run installs nothing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check kernels setup system browser train-default clean

demo: setup
	$(BIN)/perfvec demo -o demo-out

# A file's tests stay together; each process has one thread, for more would wait for one another.
test: browser setup
	$(MAKE) --jobs 2 check kernels
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

check: setup
	$(BIN)/ruff check .
	$(BIN)/mypy

# The timing model's loops, which take minutes to compile and are kept on disk.
kernels: setup
	$(BIN)/python tests/uarch/compile_kernels.py

setup: system $(STAMP)

# QEMU's user mode, a C compiler, Python's venv: installed through apt where that is allowed, otherwise named.
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
	touch $(STAMP)

# The shipped model, from nothing: trace the machine's programs, label them, train. Resumes after a kill; hours on two cores.
TRAIN := train-out
train-default: setup
	sh tools/train-default.sh $(BIN)/perfvec $(abspath $(TRAIN)) perfvec/weights/default.safetensors $(GEM5)

clean:
	rm -rf $(VENV) demo-out
