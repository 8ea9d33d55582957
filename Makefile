# FedRAP. `make` alone lists what there is.
.DEFAULT_GOAL := help
.PHONY: help demo test check bench soak sbom audit page vectors wheels clean

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
UV     := $(BIN)/uv pip install --quiet --python $(BIN)/python

help: ## print this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

# pip brings uv, uv brings the rest. The stamps make a second run install nothing.
$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "fedrap needs Python 3.11 or newer; this is $$($(PYTHON) --version). Try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "setting up $(VENV)" >&2
	@$(PYTHON) -m venv --without-pip $(VENV)
	@$(PYTHON) -m pip --python $(BIN)/python install --quiet --disable-pip-version-check uv

$(VENV)/.demo: pyproject.toml | $(BIN)/uv
	@echo "installing coordinator and simulation" >&2
	@$(UV) -e '.[simulation]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/uv
	@echo "installing everything for the tests (torch is large)" >&2
	@$(UV) -e '.[science,postgres]' --group test
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo ## a coordinator, 200 devices and 20 rounds on this machine (SPLIT=1: with a helper), a minute or two
	@$(BIN)/fedrap-sim demo $(if $(SPLIT),--split)

# Files of tests run side by side: threads of BLAS and OpenMP inside of each would only wait for each other.
test: export OMP_NUM_THREADS := 1
test: export OPENBLAS_NUM_THREADS := 1
test: check $(VENV)/.chromium $(VENV)/.java ## lint, types, import contracts and the whole test suite
	@$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
	@command -v mvn >/dev/null && command -v javac >/dev/null || echo \
	  "android_bridge was NOT tested: no JDK or Maven here (apt install default-jdk-headless maven)" >&2

# The tests of the operator's page need a browser. Where it cannot be had they are skipped.
$(VENV)/.chromium: | $(BIN)/uv
	@if command -v chromedriver >/dev/null; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  echo "installing Chromium for the tests of the operator's page" >&2; \
	  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y \
	    --no-install-recommends chromium chromium-driver) >/dev/null 2>&1 || \
	  echo "no Chromium could be installed: the tests of the operator's page are skipped" >&2; \
	else echo "no Chromium here (apt install chromium chromium-driver): its tests are skipped" >&2; fi
	@touch $@

# The Java side of the SDK needs a JDK and Maven. Where they cannot be had its tests are skipped.
$(VENV)/.java: | $(BIN)/uv
	@if command -v mvn >/dev/null && command -v javac >/dev/null; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  echo "installing a JDK and Maven for the tests of android_bridge" >&2; \
	  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y \
	    --no-install-recommends default-jdk-headless maven) >/dev/null 2>&1 || \
	  echo "no JDK and Maven could be installed: the tests of android_bridge are skipped" >&2; \
	fi
	@touch $@

page: $(VENV)/.test ## the operator's page over the demo's population, to look at
	@$(BIN)/python -m tools.dashboard --stay

check: $(VENV)/.test ## lint, types and import contracts only
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

bench soak: export PYTHONPATH := $(CURDIR)# for testkit, which is not in the wheel

bench: $(VENV)/.test ## the short benchmarks, JSON under results/
	@mkdir -p results
	@set -e; for b in benchmarks/bench_*.py; do $(BIN)/python $$b --json results/$$(basename $$b .py).json; done

soak: $(VENV)/.test ## long runs: kills at every point and 10,000 rounds with random ones; attacks; demos
	@$(BIN)/python -m pytest --long
	@$(BIN)/python benchmarks/soak_kills.py --walk
	@$(BIN)/python benchmarks/soak_kills.py --rounds 10000
	@$(BIN)/python benchmarks/soak_attack.py
	@$(BIN)/python benchmarks/soak.py
	@$(UV) atheris && $(BIN)/python -m tests.fuzz.run_atheris --seconds 660

sbom: $(BIN)/uv ## what a device and a coordinator bring with them, CycloneDX under results/
	@mkdir -p results/sbom
	@set -e; for extra in "" coordinator postgres; do \
	  name=fedrap$${extra:+-$$extra}; \
	  $(BIN)/uv pip compile --quiet --no-header --no-annotate --python $(BIN)/python pyproject.toml \
	    $${extra:+--extra $$extra} -o results/sbom/$$name.txt; \
	  $(BIN)/uv tool run --quiet --from cyclonedx-bom cyclonedx-py requirements --output-reproducible \
	    --pyproject pyproject.toml --of JSON -o results/sbom/$$name.json results/sbom/$$name.txt \
	    2>results/sbom/log || { cat results/sbom/log >&2; exit 1; }; \
	  echo results/sbom/$$name.json; done

audit: sbom ## known weaknesses of what `make sbom` lists; asks an advisory service over the network
	@set -e; for list in results/sbom/*.txt; do \
	  $(BIN)/uv tool run --quiet pip-audit --disable-pip --no-deps -r $$list; done

vectors: $(VENV)/.test ## write spec/vectors and openapi.json anew (a test fails when they differ)
	@$(BIN)/python spec/make_vectors.py
	@$(BIN)/python spec/make_openapi.py

wheels: $(VENV)/.test ## what is published: fedrap, fedrap-light, fedrap-coordinator, fedrap-simulation, under results/
	@set -e; for d in packaging/fedrap*; do \
	  (cd $$d && $(CURDIR)/$(BIN)/python -m hatchling build -t wheel -d $(CURDIR)/results/wheels); done

clean: ## remove the environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache results
	rm -rf android_bridge/target android_bridge/*/target
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
