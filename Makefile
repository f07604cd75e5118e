# Everything a newcomer needs: `make run` and `make test` work from a fresh clone with Python 3.11 alone.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# Tests start hundreds of processes: without bytecode, each of them would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install java run check test test-rest test-all soak fuzz coverage format bench experiments docs studio clean

help:            ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

install: $(STAMP)   ## create .venv and install roamcast, with what development needs

$(STAMP): pyproject.toml
	@tools/venv.sh $(PYTHON) $(VENV)
	@touch $@

# Only Spark needs Java, so only what uses Spark asks for it.
java:
	@tools/java.sh

run: install     ## a live town: brokers, clients that move, a map, and an audit of it all
	@tools/java.sh || echo "The town runs without it, and is not audited at its end."
	@$(BIN)/roamcast demo

check: install   ## lint, format, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Types take a minute of one core, so they are checked beside the tests. Four workers on two cores: many tests wait.
PYTEST := $(BIN)/pytest -n 4 --dist loadgroup --durations 12
test: install java      ## check, and the fast tier: eight minutes on two cores
	@tools/beside.sh "$(MAKE) --no-print-directory check" $(PYTEST) -m "not slow"

test-rest: install java ## the slow tests, and property tests with all their examples
	$(PYTEST) -m "slow or hypothesis" --hypothesis-profile thorough

test-all: test          ## everything that CI runs
	@$(MAKE) --no-print-directory test-rest

soak: install    ## an hour of brokers and databases that are killed, paused and cut off; ROUNDS=20 SEED=7 for less, or again
	$(BIN)/python -m tests.soak

fuzz: install    ## ten minutes of spoilt bytes for whatever hears strangers; COUNT=100000 SEED=7 for so many inputs, or again
	$(BIN)/python -m tests.fuzz

coverage: install java  ## everything under coverage; ARGS='-m "not slow"' for a part; the table is in out/coverage.txt
	@tools/coverage.sh $(BIN) $(ARGS)

format: install  ## let ruff format and mend what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install   ## timings, as ratios; results go to out/bench
	$(BIN)/python -m bench

experiments: install java   ## measure again what the papers published; the page is out/experiments/index.html
	-$(BIN)/roamcast experiments run --all
	$(BIN)/roamcast experiments report

docs: install    ## build the documentation into site/
	@$(BIN)/pip install -q --disable-pip-version-check -e '.[docs]'
	$(BIN)/zensical build

studio:          ## check and build the page that brokers serve at /studio/; needs Node 20
	cd studio && npm install --no-save --no-audit --no-fund && npm test && npm run build

clean:           ## remove the virtual environment and everything generated
	rm -rf $(VENV) site out .pytest_cache .mypy_cache .ruff_cache .hypothesis
