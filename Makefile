# SPDX-License-Identifier: Apache-2.0
# What a developer types. Everything runs from .venv, which `make setup` makes.

BIN   := .venv/bin
STAMP := .venv/.opendpu-setup
JOBS  ?= 2

.PHONY: help setup demo test test-all test-tensorflow lint docs setup-tensorflow synth synth-check synth-size synth-clocks fmax clean

help: ## Say what there is
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

# Extras that a new .venv gets beside what development needs: make setup EXTRAS=torch,tensorboard
EXTRAS ?=
$(STAMP): pyproject.toml scripts/setup.sh
	@scripts/setup.sh .venv ".[dev$(EXTRAS:%=,%)]"
	@touch $@

setup: $(STAMP) ## Make .venv and install OpenDPU into it
	@echo "setup: ready; try '$(BIN)/opendpu --help' or 'make demo'"

demo: $(STAMP) ## Run a small network on the RTL, image by image
	@$(BIN)/python scripts/demo/run.py

test: $(STAMP) ## Run the tests, all but the slow ones
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

test-all: $(STAMP) ## Run every test, the long campaigns too
	@OPT_FAST="-O3 -march=native" $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "" \
		--timeout 14400 -o faulthandler_timeout=14000

TF := .venv-tensorflow
TF_TESTS := tests/unit/opendpu/frontend/tf tests/unit/opendpu/frontend/doors \
	tests/unit/vai_q_tensorflow tests/unit/vai_q_tensorflow2 tests/unit/vitis_vai \
	tests/unit/tf_nndct tests/unit/tf1_nndct
$(TF)/.opendpu-setup: pyproject.toml scripts/setup.sh
	@scripts/setup.sh $(TF) ".[tensorflow,keras2,tensorboard]" "pytest>=8.3" "pytest-timeout>=2.3" \
		"pytest-xdist>=3.6" "hypothesis>=6.100" "ai-edge-litert>=2.1,<3"
	@touch $@

setup-tensorflow: $(TF)/.opendpu-setup
test-tensorflow: $(TF)/.opendpu-setup ## Run the tests that need TensorFlow, in an environment of their own
	@$(TF)/bin/python -m pytest -q -n $(JOBS) --dist worksteal $(TF_TESTS)

lint: $(STAMP) ## Check style, types, imports and generated pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/gen_docs.py --check
	$(BIN)/python scripts/gen_proto.py --check

docs: $(STAMP) ## Write docs/reference from the contract
	$(BIN)/python scripts/gen_docs.py

TARGET ?= B512
synth: $(STAMP) ## Synthesize TARGET (B512) with Yosys and print what it takes
	@$(BIN)/python scripts/synth/synthesize.py $(TARGET) $(SYNTH)

LIMITS := --limits scripts/synth/limits.json
# Of a design that these files have nothing is measured again: commit what they become.
MEASURED := --measured scripts/synth/measured
# Limits are those of a version: that of YoWASP, which setup installs, whatever is on the path.
AGREED := OPENDPU_TOOLS=$${OPENDPU_TOOLS-yowasp}
# The others take four fifths of the processor time of all: `make test-all` has every part.
CHECKED := decode dispatch fetch banks
synth-check: $(STAMP) ## Synthesize B64 and fail where it takes more, or is slower, than agreed
	@$(MAKE) --no-print-directory --output-sync=target -j2 synth-size synth-clocks
synth-size: $(STAMP)
	@$(AGREED) $(BIN)/python scripts/synth/synthesize.py B64 $(LIMITS) $(MEASURED)_resources.json
synth-clocks: $(STAMP)
	@$(AGREED) $(BIN)/python scripts/synth/ecp5.py B64 $(LIMITS) $(MEASURED)_clocks.json --seeds 3 \
		$(addprefix --part ,$(CHECKED))

fmax: $(STAMP) ## Place and route the parts of B64 for ECP5 and print how fast they are
	@$(BIN)/python scripts/synth/ecp5.py B64 $(SYNTH)

clean: ## Remove what was built, but not .venv
	rm -rf build sim_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
