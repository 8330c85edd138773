# Every verb of the project. A clean clone with python3, pip and make is enough: whatever needs the
# environment makes it first, from the hash-locked requirements.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LOCK_VENV := .venv-lock
WORKERS ?= 2
KILLS ?= 100
# The promises that `make promises` insists on, and where.
REQUIRED ?= 1-230
BACKENDS ?= memory,sqlite,file,postgres
CODE := hatch_build.py $(wildcard src testing tests tools bench examples)
TYPED := hatch_build.py $(wildcard src testing tests tools bench)
PYTEST := $(BIN)/python -m pytest -n $(WORKERS)
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check
COMPILE := $(LOCK_VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-header $(if $(UPGRADE),--upgrade) \
	--override requirements/overrides.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Targets share one environment and two processor cores; running them side by side gains nothing.
.NOTPARALLEL:

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort \
		| sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

.PHONY: venv
venv: $(READY) ## make .venv from the locks (the other targets do so themselves)

# Made anew when the lock changes, so that nothing the lock dropped lingers.
$(VENV)/.locked: requirements/dev.txt
	@echo "making $(VENV) from requirements/dev.txt (once; about a minute)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "needs Python 3.11+")'
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP_INSTALL) --no-deps --require-hashes -r requirements/dev.txt
	@touch $@

# The two distributions, in place. The build tools come from the lock, hence no isolation.
$(READY): $(VENV)/.locked pyproject.toml testing/pyproject.toml
	@echo "installing ledgerstone and ledgerstone-testing into $(VENV), editable"
	@$(PIP_INSTALL) --no-deps --no-build-isolation -e . -e testing
	@touch $@

.PHONY: demo
demo: $(READY) ## an agent is killed in the middle of a turn, and nothing is lost
	@$(BIN)/ledgerstone demo

.PHONY: test
test: sync ## the test suite: every promise, on every backend (KILLS=n for more crashes)
	@$(PYTEST) --dist worksteal -m "not nightly" --kills $(KILLS)

.PHONY: test-all
test-all: sync ## every test there is, those for the night included (KILLS=n)
	@$(PYTEST) --dist worksteal --kills $(KILLS)

.PHONY: faults
faults: sync ## every fault test at full size; writes the table into docs/reliability.md
	@$(PYTEST) --dist worksteal -m faults --scale=full --kills=500 --timeout=3600 \
		--scores-table=docs/reliability.md

.PHONY: lint
lint: sync ## what `check` says about the text: style, types, layers
	@echo "ruff check" && $(BIN)/ruff check --quiet $(CODE)
	@echo "ruff format" && $(BIN)/ruff format --quiet --check $(CODE) \
		|| { $(BIN)/ruff format --check $(CODE); exit 1; }
	@echo "mypy --strict" && $(BIN)/mypy --no-error-summary $(TYPED)
	@echo "lint-imports" && $(BIN)/lint-imports --no-cache > $(VENV)/lint-imports.txt \
		|| { cat $(VENV)/lint-imports.txt; exit 1; }

.PHONY: check
check: lint ## lint, types, layers, tidy, fast tests; some minutes
	@echo "tidy and fast tests" && $(PYTEST) -m "not slow and not crash and not nightly"

.PHONY: check-all
check-all: check ## check, then test-all with 500 kills
	@$(MAKE) --no-print-directory test-all KILLS=500

# The peers have an environment of their own, so that the one for development stays lean.
BENCH_VENV := .venv-bench
PEERS ?= yes
ARGS ?=

$(BENCH_VENV)/.locked: requirements/bench.txt
	@echo "making $(BENCH_VENV) from requirements/bench.txt (once; about a minute)"
	@$(PYTHON) -m venv --clear $(BENCH_VENV)
	@$(BENCH_VENV)/bin/python -m pip install -qq --disable-pip-version-check \
		--no-deps --require-hashes -r requirements/bench.txt
	@touch $@

$(BENCH_VENV)/.ready: $(BENCH_VENV)/.locked pyproject.toml testing/pyproject.toml
	@$(BENCH_VENV)/bin/python -m pip install -qq --disable-pip-version-check \
		--no-deps --no-build-isolation -e . -e testing
	@touch $@

.PHONY: bench
bench: $(if $(PEERS),$(BENCH_VENV)/.ready,$(READY)) ## floors, peers and ours (PEERS= without; ARGS=--quick)
	@$(if $(PEERS),$(BENCH_VENV),$(VENV))/bin/python -m bench $(if $(PEERS),,--no-peers) $(ARGS)

.PHONY: promises
promises: sync ## prove the promises and print, last, how many each backend keeps
	@$(PYTEST) -m "promise and not nightly" --promises \
		--promises-require "$(REQUIRED)" --promises-backends "$(BACKENDS)"

.PHONY: sync
sync: $(READY) ## write the blocking half of the API, api_sync, from api
	@$(BIN)/python tools/make_sync.py

.PHONY: format
format: $(READY) ## format the code and sort the imports
	@$(BIN)/ruff check --quiet --fix --select I $(CODE)
	@$(BIN)/ruff format --quiet $(CODE)

$(LOCK_VENV)/.locked: requirements/lock.txt
	@echo "making $(LOCK_VENV) with uv"
	@$(PYTHON) -m venv --clear $(LOCK_VENV)
	@$(LOCK_VENV)/bin/python -m pip install -qq --require-hashes -r requirements/lock.txt
	@touch $@

.PHONY: lock
lock: $(LOCK_VENV)/.locked ## write the hash-locked requirements anew (UPGRADE=1: newest versions)
	@for name in core dev bench lock; do \
		$(COMPILE) requirements/$$name.in -o requirements/$$name.txt || exit 1; \
	done

.PHONY: clean
clean: ## remove the environment and everything a tool left behind
	@rm -rf $(VENV) $(LOCK_VENV) $(BENCH_VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache .coverage .coverage.* htmlcov
	@find src testing tests tools bench examples -name __pycache__ -type d -prune -exec rm -rf {} + \
		2>/dev/null || true
