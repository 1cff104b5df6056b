# Every target makes the environment it needs; nothing but Python >= 3.11 with pip has to be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo test test-fast test-long lint docs bench fuzz mutants clean

setup: $(READY)

# The build backend is pinned in the lock too, so that nothing unpinned is fetched to install the package itself.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: $$($(PYTHON) --version) is too old; Python 3.11 or later is needed: make PYTHON=python3.11" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

demo: setup
	$(BIN)/mtgcn demo

test: lint
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not long"

test-fast: setup
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not long" tests

# Journeys from end to end, browsers, processes that are killed: one at a time, since they would disturb each other.
test-long: docs
	$(BIN)/python -m pytest -m long

# The share of mutants of the source that the tests detect; hours on two cores, and the same command resumes.
SEED ?= 0
COUNT ?= 200
mutants: setup
	$(BIN)/python benchmarks/mutants.py --seed $(SEED) --count $(COUNT)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site; broken links, missing pages and unknown names in the API reference are errors.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The CPU benchmarks of docs/benchmarks.md; half an hour on two idle cores, and peers.py, whose infomax may
# be trained for a quarter of an hour on the largest graph, as long again or longer. Each program keeps its numbers,
# its command and the machine in docs/measurements/, and the page names the file before its table.
MEASURED := docs/measurements
bench: setup
	$(BIN)/python benchmarks/speed.py --json $(MEASURED)/speed.json
	$(BIN)/python benchmarks/speed.py --single --json $(MEASURED)/single.json
	$(BIN)/python benchmarks/speed.py --memory --json $(MEASURED)/memory.json
	$(BIN)/python benchmarks/cells.py --json $(MEASURED)/cells.json
	$(BIN)/python benchmarks/growth.py --json $(MEASURED)/growth-mt-plus.json
	$(BIN)/python benchmarks/first_fit.py --json $(MEASURED)/first-fit.json
	$(BIN)/python benchmarks/peers.py --json $(MEASURED)/peers.json
	$(BIN)/python benchmarks/page.py --json $(MEASURED)/page.json

# Many more random cases of malformed input than in make test, other ones each time.
FACTOR ?= 40
fuzz: setup
	FUZZ_FACTOR=$(FACTOR) $(BIN)/python -m pytest -n auto tests/fuzz -k test_random_cases

clean:
	rm -rf $(VENV) build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -exec rm -rf {} +
