# `make demo` and `make test` are all that a newcomer needs. Everything lives in .venv inside the checkout.

export UV_PYTHON_DOWNLOADS := never
# Tests start many interpreters: without compiled files each of them would compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' && echo $$p && break; done)
BIN := .venv/bin
JOBS ?= 2
TYPE_JOBS ?= $(JOBS)

.PHONY: demo test tests check fix bench clients dropins crash scorecard clean

demo: .venv/.cli
	@$(BIN)/foveal demo

test: check tests

tests: .venv/.dev
	$(BIN)/pytest -n $(JOBS) --dist worksteal

# Types: `src` is checked strictly, scripts and tests by the standard rules; see [tool.basedpyright] in pyproject.toml.
check: .venv/.dev
	$(BIN)/ruff check src tests benchmarks scripts examples
	$(BIN)/ruff format --check src tests benchmarks scripts examples
	$(BIN)/lint-imports --no-cache
	$(BIN)/basedpyright --threads $(TYPE_JOBS)

# Mends what a tool can mend.
fix: .venv/.dev
	$(BIN)/ruff check --fix src tests benchmarks scripts examples
	$(BIN)/ruff format src tests benchmarks scripts examples

bench: .venv/.cli
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/chats.py --budgets 16000 32000 64000 --write
	$(BIN)/python scripts/check_results.py --mark bench.md bench.json chats.md

# Real clients from npm, against a scripted provider: needs node and npm, and no key.
clients: .venv/.dev
	$(BIN)/python benchmarks/clients.py; code=$$?; \
	$(BIN)/python scripts/check_results.py --mark clients.md; exit $$code

# What was tried, how often, and the bugs that each figure catches. The published sizes take hours: --whole --write.
scorecard: .venv/.dev
	$(BIN)/python scripts/scorecard.py $(SCORECARD)

# Real frameworks against a scripted provider: the contracts at their whole length, then a table of prices, each framework in an
# environment of its own. Needs their packages, and no key.
dropins: .venv/.dev
	FOVEAL_DROPINS=1 $(BIN)/pytest -n $(JOBS) --dist worksteal tests/integrations
	$(BIN)/python benchmarks/dropins.py && $(BIN)/python scripts/check_results.py --mark dropins.md

crash: .venv/.dev
	$(BIN)/python scripts/crash_test.py --kills 2000
	$(BIN)/python scripts/kill_postgres.py --kills 300

clean:
	rm -rf .venv .foveal

# A wheel cannot say "the tools of a developer", so they are an extra. Old pips know no dependency groups.
.venv/.cli: EXTRA = cli
.venv/.dev: EXTRA = dev
.venv/.cli .venv/.dev: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Foveal needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 1; }
	@{ command -v uv >/dev/null 2>&1 && \
		{ test -x $(BIN)/python || uv venv -q --python "$(PYTHON)" .venv; } && \
		uv pip install -q --compile-bytecode --python $(BIN)/python -c constraints.txt -e '.[$(EXTRA)]'; } || \
	{ test -x $(BIN)/pip || $(PYTHON) -m venv --clear .venv || \
		{ echo "no venv module: apt-get install python3-venv" >&2; exit 1; }; \
		$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[$(EXTRA)]'; }
	@touch $@
