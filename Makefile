# Aliquot. A machine needs Python 3.11 or newer (with venv) and make; everything else comes into .venv.
#   make run | test | serve | bench | setup | lint | clean      ARGS="…" passes arguments on to run, serve and bench

ifndef PYTHON
PYTHON := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
endif
BIN := .venv/bin
STAMP := .venv/installed
# Pinned here and nowhere else: a plain install of this release takes a CPU build on a CPU machine that offers one.
TORCH := torch==2.13.0

# $(call quietly,WHAT,COMMAND): say what happens, show that it lives, and show what was said only when it fails.
quietly = printf '%s ' '$(1)'; (while sleep 5 && kill -0 $$$$ 2>/dev/null; do printf .; done) & beat=$$!; \
	$(2) >.venv/setup.log 2>&1; code=$$?; kill $$beat; \
	if [ $$code -eq 0 ]; then echo ' done'; else echo ' failed:'; tail -n 40 .venv/setup.log; exit $$code; fi

.PHONY: setup run test serve bench lint clean

setup: $(STAMP)

$(STAMP): pyproject.toml
	@if [ -z "$(PYTHON)" ]; then \
		echo "Aliquot needs Python 3.11 or newer, and none was found. Install one, or name it: make PYTHON=/path/to/python3"; \
		exit 1; fi
	@if ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
		echo "Aliquot needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1)."; exit 1; fi
	@if ! $(PYTHON) -c 'import venv, ensurepip' 2>/dev/null; then \
		echo "$(PYTHON) has no venv. On Debian or Ubuntu: sudo apt install python3-venv"; exit 1; fi
	@echo "Setting up in .venv (about 2 GB; some minutes, once)."
	@$(PYTHON) -m venv .venv
	@$(call quietly,1/2 PyTorch,$(BIN)/python -m pip install --disable-pip-version-check $(TORCH))
	@$(call quietly,2/2 Aliquot and what it needs,$(BIN)/python -m pip install --disable-pip-version-check -e '.[dev]')
	@touch $@

run: setup
	@$(BIN)/aliquot run examples/campaigns/druglike.yaml $(ARGS)

serve: setup
	@$(BIN)/aliquot serve $(ARGS)

bench: setup
	@$(BIN)/python -m benchmarks $(ARGS)

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

test: lint
	@$(BIN)/python -m pytest -q -n auto --maxprocesses 4 $(ARGS)

clean:
	rm -rf .venv dist .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
