# Needs python3 >= 3.11 (with venv and headers), g++ (C++20) and make. Everything else comes from PyPI
# into .venv. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
CMAKE = $(if $(wildcard $(BIN)/cmake),$(BIN)/cmake,cmake)
CTEST = $(if $(wildcard $(BIN)/ctest),$(BIN)/ctest,ctest)
JOBS ?= $(shell nproc)
export PIP_NO_PYTHON_VERSION_WARNING := 1

# Directories are listed too: their times change when a file is added or removed.
NATIVE_SOURCES := $(shell find native -not -name '.*')
ROOMS := journal runtime processes configs examples
CPP_FILES = $(shell find native tests/native -name '*.hpp' -o -name '*.cpp' -o -name '*.h')

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sort \
	  | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# ---- environment and build -------------------------------------------------------------------

# One build at a time: a second `make dev` waits for the first and then finds nothing left to do.
.PHONY: dev
dev: ## Create .venv and install tapewire into it, editable, with the test and dev extras
	@mkdir -p $(VENV)
	@flock --close $(VENV)/.lock $(MAKE) --silent $(VENV)/.stamp-native

# What the native tests need: cmake, from the system or from PyPI.
.PHONY: tools
tools:
	@mkdir -p $(VENV)
	@flock --close $(VENV)/.lock $(MAKE) --silent $(VENV)/.stamp-deps

$(VENV)/.stamp-venv:
	@command -v $(PYTHON) >/dev/null || { echo "error: no $(PYTHON) on PATH; set PYTHON=python3.x" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: $(PYTHON) is older than 3.11; set PYTHON=python3.x" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo "error: $(PYTHON) has no venv; on Debian or Ubuntu: apt install python3-venv" >&2; exit 2; }
	@$(PYTHON) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' \
	  || { echo "error: $(PYTHON) has no headers (Python.h); on Debian or Ubuntu: apt install python3-dev" >&2; exit 2; }
	@command -v $${CXX:-g++} >/dev/null \
	  || { echo "error: no C++ compiler ($${CXX:-g++}); on Debian or Ubuntu: apt install g++" >&2; exit 2; }
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# Build requirements live in the venv, so that builds need no isolation and are incremental.
$(VENV)/.stamp-deps: pyproject.toml $(VENV)/.stamp-venv
	@echo "installing build requirements"
	@tools=""; \
	command -v cmake >/dev/null || tools="$$tools cmake>=3.22"; \
	command -v ninja >/dev/null || tools="$$tools ninja"; \
	$(PIP) install $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])') $$tools
	@touch $@

# An editable install knows the rooms that existed when it was made, so a new room installs again.
$(VENV)/.stamp-dev: CMakeLists.txt $(wildcard $(ROOMS:=/__init__.py)) $(VENV)/.stamp-deps
	@echo "building and installing tapewire (editable) with its dependencies; about a minute"
	@PATH="$$PWD/$(BIN):$$PATH" $(PIP) install --no-build-isolation -Cbuild-dir=build/dev -e '.[test,dev]'
	@touch $@

# After the first install a changed native source needs no pip: build and install what changed.
$(VENV)/.stamp-native: $(VENV)/.stamp-dev $(NATIVE_SOURCES)
	@$(CMAKE) --build build/dev --parallel $(JOBS) >$(VENV)/build.log || { cat $(VENV)/build.log; exit 1; }
	@$(CMAKE) --install build/dev \
	  --prefix "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_paths()["platlib"])')" >/dev/null
	@touch $@

# ---- use -------------------------------------------------------------------------------------

.PHONY: run
run: dev ## Install, then measure depth-to-order latency in short form, native and Python
	$(BIN)/tapewire bench latency --runs 3 --strategy native
	$(BIN)/tapewire bench latency --runs 3 --strategy python

# ---- checks ----------------------------------------------------------------------------------

.PHONY: test
test: dev ## Run the Python tests (under 15 minutes)
	$(BIN)/python -m pytest $(ARGS)

.PHONY: stress
stress: dev ## Run the long randomized tests, Python and native
	TAPEWIRE_STRESS=$${TAPEWIRE_STRESS:-10} $(MAKE) native-test
	TAPEWIRE_STRESS=$${TAPEWIRE_STRESS:-10} $(BIN)/python -m pytest -m stress --timeout=1800 $(ARGS) \
	  || [ $$? -eq 5 ]  # 5: no test is marked so

.PHONY: lint
lint: dev lint-tree ## Check style and types: ruff, mypy --strict, clang-format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cd build/lint && ../../$(BIN)/mypy --config-file ../../pyproject.toml \
	  --cache-dir ../mypy-cache --python-executable ../../$(BIN)/python -p tapewire
	@echo "clang-format --dry-run -Werror"; $(BIN)/clang-format --dry-run -Werror $(CPP_FILES)

# mypy reads no import hook, and an editable install is one. This tree of links has the installed layout.
.PHONY: lint-tree
lint-tree: dev
	@rm -rf build/lint && mkdir -p build/lint/tapewire
	@ln -s $(addprefix ../../../,$(filter-out %/__pycache__,$(wildcard tapewire/*)) $(ROOMS)) build/lint/tapewire/
	@ln -s ../../dev/_native.pyi build/lint/tapewire/_native.pyi

.PHONY: fmt
fmt: dev ## Format Python and C++ in place
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP_FILES)

# $(call native_tests,build directory,sanitizers,environment)
define native_tests
	@$(CMAKE) -S . -B build/$(1) -DTAPEWIRE_PYTHON_MODULE=OFF -DTAPEWIRE_NATIVE_TESTS=ON -DTAPEWIRE_SANITIZE=$(2) >/dev/null
	@$(CMAKE) --build build/$(1) --parallel $(JOBS)
	@$(3) $(CTEST) --test-dir build/$(1) --output-on-failure --no-tests=error
endef

.PHONY: native-test
native-test: tools ## Build and run the C++ tests in tests/native
	$(call native_tests,native,,)

.PHONY: asan
asan: tools ## Run the C++ tests under the address and undefined-behaviour sanitizers
	$(call native_tests,asan,address$(comma)undefined,)

# gcc 12's thread sanitizer cannot start under the address-space randomization of newer kernels; setarch -R
# turns it off where the container allows that.
.PHONY: tsan
tsan: tools ## Run the C++ tests under the thread sanitizer
	$(call native_tests,tsan,thread,$(shell setarch -R true 2>/dev/null && echo setarch -R))

comma := ,

# ---- housekeeping ----------------------------------------------------------------------------

.PHONY: wheel
wheel: dev ## Build a wheel into dist/
	$(BIN)/python -m pip wheel --no-deps --wheel-dir dist .

.PHONY: clean
clean: ## Remove the environment, builds and caches (recorded runs stay)
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
