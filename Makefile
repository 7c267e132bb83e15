# Every target sets up what it needs in $(VENV), with the releases of constraints.txt and no others.
#
#   make demo      scan a released torch extension and look at what it does to precision
#   make test      the tests, on real PyTorch sources too (brought by scripts/get_sources.sh)
#   make check     formatting, lint, types, import layers, and that the documentation holds
#   make bench     CPU of a cold scan beside clang's own parse of the same 15 units
#   make accuracy  casts found beside those that LLVM IR shows for the same 15 units
#
# Others than the python3 on PATH: make PYTHON=python3.12 demo

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
BENCH_ARGS ?=
ACCURACY_ARGS ?=

# tensorflow-cpu asks for the wheel libclang, which would overwrite files of libclang-ng and which nothing of
# TensorFlow's imports: it is installed without what it asks for, and here is the rest of that.
TENSORFLOW_NEEDS := absl-py astunparse flatbuffers gast google-pasta grpcio h5py keras ml_dtypes numpy opt_einsum \
	packaging protobuf requests six termcolor typing_extensions wrapt

BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test check bench accuracy format clean

help:
	@sed -n '3,9s/^# *//p' Makefile

demo: $(VENV)/.scan
	VENV='$(VENV)' demo/demo.sh

test: $(VENV)/.dev
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict opscanner compile_db
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest --quiet tests/docs

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/bench_scan.py $(BENCH_ARGS)

accuracy: $(VENV)/.dev
	$(BIN)/python benchmarks/accuracy.py $(ACCURACY_ARGS)

clean:
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

# A scan with everything at hand: CUDA's headers from wheels, torch for an extension's headers and for torchgen.
# setuptools and wheel are there for the metadata of source distributions (Python 3.12 no longer brings them).
$(VENV)/.scan: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 10) else "opscanner needs Python 3.10 or newer, and $(PYTHON) is " + sys.version.split()[0] + "\n  try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) setuptools wheel --editable '.[cuda-headers,torch]'
	@touch $@

$(VENV)/.dev: $(VENV)/.scan
	$(INSTALL) --editable '.[cuda-headers,torch,dynamic,postgres,dev]'
	$(INSTALL) --no-deps nvidia-cutlass
	$(INSTALL) $(TENSORFLOW_NEEDS)
	$(INSTALL) --no-deps tensorflow-cpu
	@touch $@
