# The same names are used by people and by CI. `make help` lists them.
#
# Every target does its own set-up. A stamp in .venv says which pinned files it was made from,
# so that nothing is installed twice and a changed pin is noticed.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCKS := requirements
ARGS ?=

# uv trusts what the machine trusts, as pip, Maven and Spark do.
export UV_SYSTEM_CERTS := true
export UV_NO_PROGRESS := true
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# An activated environment of somebody else must not be the one that is filled.
unexport VIRTUAL_ENV
# Tests start hundreds of processes, and each would compile all sources again.
unexport PYTHONDONTWRITEBYTECODE
# Without a home to write to, downloads are kept here.
ifeq ($(shell test -n "$$HOME" -a -w "$$HOME" && echo yes),)
export UV_CACHE_DIR := $(CURDIR)/.cache/uv
endif

UV_INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python --build-constraint $(LOCKS)/build.lock.txt
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-annotate --custom-compile-command "make lock" $(ARGS)
PYTEST := $(BIN)/python -m pytest
# tests/conftest.py says how many workers: two for each core. The tests of a module stay on one, in the order given there.
WORKERS ?= auto
SEEDS ?= 200
FIRST ?=
SECONDS ?= 60
SEED ?=
KIND ?= ours
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: help env dev run test unit oracles interop older slow ecosystem spark walks simulate defects history faults siege fuzz check lint types layers site format docs docs-serve bench lock release clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

# ---- set-up --------------------------------------------------------------------------------------

env: $(VENV)/.run.stamp ## make .venv with `barnabas` in it and all that `make run` needs

dev: $(VENV)/.dev.stamp ## add what tests, checks and benchmarks need

$(VENV)/.uv.stamp: $(LOCKS)/uv.lock.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "barnabas needs Python 3.11 or later; $(PYTHON) is $$("$(PYTHON)" -V 2>&1). Try: make PYTHON=python3.11 ..." >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { echo "making $(VENV)"; "$(PYTHON)" -m venv --clear $(VENV); }
	@$(BIN)/python -m pip install --quiet --require-hashes --only-binary :all: -r $<
	@touch $@

$(VENV)/.run.stamp: $(LOCKS)/run.lock.txt $(LOCKS)/build.lock.txt pyproject.toml $(VENV)/.uv.stamp
	@echo "installing what barnabas needs (PySpark is 400 MB; the first time takes a minute or two)"
	@$(UV_INSTALL) --require-hashes -r $(LOCKS)/run.lock.txt
	@$(UV_INSTALL) --no-deps --editable .
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m compileall -q src  # The first start is as quick as the second.
	@touch $@

$(VENV)/.dev.stamp: $(LOCKS)/dev.lock.txt $(LOCKS)/s3-server.lock.txt $(VENV)/.run.stamp
	@echo "installing what tests and checks need"
	@$(UV_INSTALL) --require-hashes -r $(LOCKS)/dev.lock.txt
	@rm -rf $(VENV)/s3-server
	@$(UV_INSTALL) --target $(VENV)/s3-server --require-hashes -r $(LOCKS)/s3-server.lock.txt
	@touch $@

lock: $(VENV)/.uv.stamp ## pin and hash again what pyproject.toml asks for (ARGS=--upgrade for newer versions)
	$(LOCK) $(LOCKS)/uv.in -o $(LOCKS)/uv.lock.txt
	$(LOCK) $(LOCKS)/build.in -o $(LOCKS)/build.lock.txt
	$(LOCK) --extra spark --extra connect --extra flights --extra uvloop pyproject.toml -o $(LOCKS)/run.lock.txt
	$(LOCK) -c $(LOCKS)/run.lock.txt pyproject.toml -o $(LOCKS)/node.lock.txt
	$(LOCK) -c $(LOCKS)/run.lock.txt --all-extras --group dev pyproject.toml -o $(LOCKS)/dev.lock.txt
	$(LOCK) -c $(LOCKS)/dev.lock.txt $(LOCKS)/release.in -o $(LOCKS)/release.lock.txt
	$(LOCK) $(LOCKS)/s3-server.in -o $(LOCKS)/s3-server.lock.txt

# ---- the main job --------------------------------------------------------------------------------

run: env ## a node, a Connect worker, a stream of real flights through its connectors (KEEP=1 leaves both up)
	@$(BIN)/python -m barnabas.pipelines.flights $(ARGS)

# ---- tests ---------------------------------------------------------------------------------------

test: dev ## unit tests, oracles, interop, spark; tests/contracts are part of `make check` (ARGS are passed to pytest)
	@$(PYTEST) $(PARALLEL) --durations=20 --ignore=tests/contracts $(ARGS)

unit: dev ## the tests that need neither sockets nor Java
	@$(PYTEST) $(PARALLEL) tests/unit $(ARGS)

oracles: dev ## answers recorded from a real Kafka; BARNABAS_ORACLES=folder for other ones
	@$(PYTEST) $(PARALLEL) -m oracle $(ARGS)

interop: dev ## real clients on our node, the real Kafka on our files
	@$(PYTEST) $(PARALLEL) -m interop $(ARGS)

older: dev ## the tests of our clients that also run on the last Kafka 3.x, all of them
	@BARNABAS_KAFKA_3=all $(PYTEST) -m interop -k "kafka-3" $(ARGS)

slow: dev ## what `make test` runs with less, in full (a million keys, a hundred kills), and what it leaves out
	@BARNABAS_LONG_TESTS=1 BARNABAS_COMPACTION_KEYS=1000000 BARNABAS_KILLS=100 BARNABAS_CONTROLLER_KILLS=20 BARNABAS_QUORUM_KILLS=20 \
	  $(PYTEST) -m "slow or long" --timeout=3600 $(ARGS)

ecosystem: dev ## Streams, Flink, MirrorMaker, Go's clients and librdkafka's own tests on our transactions and groups, all of them
	@BARNABAS_LONG_TESTS=1 $(PYTEST) -m ecosystem $(ARGS)

walks: dev ## random requests to our node and to Kafka's, which must answer alike (STEPS=750, SEED= or a drawn one)
	@seed=$${SEED:-$$($(BIN)/python -c 'import random; print(random.randrange(2**31))')}; echo "SEED=$$seed"; \
	  BARNABAS_LONG_TESTS=1 BARNABAS_WALK_STEPS=$${STEPS:-750} BARNABAS_WALK_SEEDS=$$seed $(PYTEST) --timeout=3600 \
	  tests/interop/test_consumer_groups_match_kafka.py tests/interop/test_streams_groups_match_kafka.py \
	  tests/interop/test_share_state_matches_kafka.py tests/interop/test_transactions_match_kafka.py $(ARGS)

spark: dev ## the pipelines on a local Spark session
	@$(PYTEST) -m spark $(ARGS)

simulate: dev ## whole clusters under faults, in virtual time (SEEDS=2000 of them, from FIRST on, or from a block drawn at random)
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST)) $(ARGS)

defects: dev ## put each known mistake into the product and see that the simulator finds it
	@$(BIN)/python -m tests.simulation --prove $(ARGS)

history: dev ## real brokers and controllers under kill -9, cuts and full disks (SECONDS=60, SEED=, KIND=ours|kafka|mixed)
	@$(BIN)/python -m tests.history --seconds $(SECONDS) --kind $(KIND) $(if $(SEED),--seed $(SEED)) $(ARGS)

siege: dev ## hostile inputs against a node, and what a well-behaved client feels of them (KIND=ours|kafka|both)
	@$(BIN)/python -m tests.siege --kind $(KIND) $(if $(SEED),--seed $(SEED)) $(ARGS)

faults: dev ## every kind of file under log.dirs with every fault (docs/storage-faults.md; ARGS="--kind kafka")
	@$(BIN)/python -m tests.storage_faults $(ARGS)

fuzz: dev ## the property tests with many more examples
	@$(PYTEST) $(PARALLEL) -m hypothesis --hypothesis-profile=fuzz --timeout=1800 $(ARGS)

# ---- checks --------------------------------------------------------------------------------------

check: lint types layers site ## format, lint, strict types, layers, the documentation site

lint: dev
	@$(BIN)/ruff format --check . || { echo "make format mends this" >&2; exit 1; }
	@$(BIN)/ruff check .

types: dev
	@$(BIN)/mypy

layers: dev
	@$(BIN)/lint-imports --no-logo
	@$(PYTEST) -q tests/contracts

site: dev ## build the documentation site into build/site; a broken link or anchor fails it
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "documentation site: build/site/index.html"

format: dev ## write the format that `check` expects
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

# ---- the rest ------------------------------------------------------------------------------------

bench: dev ## a real Kafka and our node in turn; tables and plots go to docs/benchmarks
	@$(BIN)/python -m bench $(ARGS)

docs: dev ## write docs/reference again from the code
	@$(BIN)/python -m tests.docs.reference

docs-serve: dev ## show the documentation site on http://127.0.0.1:8000 while you write
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --watch src $(ARGS)

release: env ## build wheel, sdist, bill of materials and checksums into dist (ARGS=--rehearsal before everything is set)
	@PYTHONPATH=packaging/tools $(BIN)/python -m barnabas_release build $(ARGS)

clean: ## remove what was made here, downloads included
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
