# make report   the demo study, from nothing to one HTML page
# make test     the whole test suite
# Both set up what they need in .venv and use it again when nothing changed.
VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN = $(VENV)/bin

.PHONY: report test env lint pins benchmarks clean python

report: python
	@$(PYTHON) .ci/environment.py $(VENV) --extra infer
	@$(BIN)/birdlab run reports/demo.yaml

test: python
	@$(PYTHON) .ci/environment.py $(VENV) --extra infer --extra audio --extra test --system
	@$(BIN)/python -m pytest $(PYTEST)

env: python
	@$(PYTHON) .ci/environment.py $(VENV) --extra infer --extra audio --extra test

lint:
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/birdlab check notebooks/*.ipynb reports/*.yaml

benchmarks:
	@for b in benchmarks/bench_*.py; do $(BIN)/python $$b || exit 1; done

# The exact versions of a fresh environment, without addresses.
pins:
	@$(BIN)/python -m uv pip freeze --exclude-editable | grep -E '^[A-Za-z0-9_.-]+==' > .ci/constraints.txt

python:
	@test -n "$(PYTHON)" || { echo "birdlab: Python 3.11 or newer is needed and was not found (looked for python3, python3.13, python3.12, python3.11)" >&2; exit 2; }

clean:
	rm -rf $(VENV) reports/demo
