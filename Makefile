# The road from a fresh clone to a proof. Needs only make and a Python 3.11 or newer; everything else goes into .venv.
# The environment is made by tools/bootstrap.py, once; it is made anew when a pyproject.toml, requirements/ or the checkout's place changes.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help test near prove check coverage format demo bench evaluate adapters clean

# make test PYTHON=/path/to/python: prefer this one.    make test WORKERS=4 TESTS=packages/perdure/tests/log: as it says.
# Tests that a caller names all run. Otherwise slow tests that are proved and unchanged are left out, unless CI=true (tests/tiers.py).
# One worker more than a small machine has cores: many tests wait for processes. Who is done takes over from the others.
PYTHON ?=
WORKERS ?= 3
SLOW := $(if $(TESTS),all,due)
TESTS ?= $(if $(PACKAGE),packages/$(PACKAGE)/tests,tests packages)
BUDGET ?= 10m

PYTHONS := $(PYTHON) python3 python3.13 python3.12 python3.11 python3.14 python
FITS := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
RUN := .venv/bin/python -m

# What the caller's shell has set for other projects must not reach this one. Without bytecode, every process that a test
# starts would compile all that it imports.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONDONTWRITEBYTECODE VIRTUAL_ENV
unexport PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV
export PIP_DISABLE_PIP_VERSION_CHECK := 1

define bootstrap
@for python in $(PYTHONS); do \
  if "$$python" -c '$(FITS)' >/dev/null 2>&1; then exec "$$python" tools/bootstrap.py $(1); fi; \
done; \
echo "make: no Python 3.11 or newer with venv and ensurepip among: $(strip $(PYTHONS))" >&2; \
echo "make: install one (on Debian: python3 and python3-venv), or say make PYTHON=/path/to/python" >&2; \
exit 1
endef

help: ## this list
	@sed -n 's/^\([a-z]*\):.* ## /\1\t/p' Makefile | while read -r target says; do printf '  make %-8s %s\n' "$$target" "$$says"; done

test: check ## check, then the tests that are due; all with CI=true (PACKAGE=perdure-files, TESTS=packages/perdure/tests/log)
	@.venv/bin/python tools/system_parts.py
	$(RUN) pytest -n $(WORKERS) --dist worksteal --slow=$(SLOW) $(TESTS)

near: ## the tests nearest to a file (FILE=packages/perdure/src/perdure/log/fold.py)
	$(call bootstrap,dev)
	@.venv/bin/python tools/near.py $(FILE)

# The list is written last: the commit that it names is one at which all of this passed.
prove: check ## everything: packages from their wheels, versions that do not fit, extras, all tests; writes tests/slow.txt
	@.venv/bin/python tools/system_parts.py
	.venv/bin/python tools/prove_packages.py
	$(RUN) pytest -n $(WORKERS) --dist worksteal --slow=prove

# Types take one core for a while. The other collects the tests meanwhile: that they can be collected is shown before the first of
# them runs, and what all workers would compile at the same time is compiled once.
check: ## lint, format, types, tests that can be collected, layers, declared imports
	$(call bootstrap,dev)
	$(RUN) ruff check
	$(RUN) ruff format --check
	@mkdir -p .cache; echo "$(RUN) basedpyright, and pytest --collect-only beside it"; \
	$(RUN) pytest --collect-only -qq >.cache/collected 2>&1 & \
	$(RUN) basedpyright; types=$$?; \
	wait $$! || { tail -n 20 .cache/collected; exit 1; }; \
	exit $$types
	.venv/bin/lint-imports --cache-dir .cache/imports
	@for package in packages/*/; do (cd $$package && ../../.venv/bin/deptry src) || exit 1; done
	.venv/bin/deptry tests packages/*/tests tools examples

coverage: ## all tests, and which lines of the packages they run (a report into .cache/coverage)
	$(call bootstrap,dev)
	@rm -f .cache/coverage.data*
	$(RUN) coverage run -m pytest -n $(WORKERS) --dist worksteal $(TESTS)
	$(RUN) coverage combine --quiet
	$(RUN) coverage html --quiet
	$(RUN) coverage report --skip-covered --sort=cover

format: ## let ruff format the code and repair what it can
	$(call bootstrap,dev)
	$(RUN) ruff format
	$(RUN) ruff check --fix

adapters: ## run the suites of other frameworks against our adapters, each in an environment of its own
	$(call bootstrap,dev)
	.venv/bin/python tools/adapters.py

demo: ## see it work: an agent is killed and goes on
	$(call bootstrap,runtime)
	@.venv/bin/python examples/demo

bench: ## measure it on this machine
	$(call bootstrap,dev)
	@.venv/bin/perdure bench --check

# Other frameworks are installed on the way, each on its own, in the user's cache; those that cannot be had are skipped.
evaluate: ## kill agents on several stores and count what happened (BUDGET=10m, into ./evaluation-report)
	$(call bootstrap,dev)
	@.venv/bin/perdure evaluate --install-peers --budget $(BUDGET) --out evaluation-report

clean: ## remove the environment and all caches
	rm -rf .venv .cache .pytest_cache .ruff_cache .hypothesis build dist
