# Every target works alone and first on a fresh machine: it creates .venv and installs what it needs.
#   make test PYTHON=python3.12      another interpreter (3.11 or newer)
#   make quickstart DEVICE=cpu       cpu, cuda or tpu; found by itself otherwise
#   make quickstart TASK=programs    programs by example instead of the small maze

PYTHON ?= python3
TASK ?= maze_small
VENV := .venv
RUN := $(VENV)/bin/python

ifndef DEVICE
  DEVICE := $(shell if nvidia-smi -L >/dev/null 2>&1; then echo cuda; \
    elif ls /dev/accel[0-9]* /dev/vfio/[0-9]* >/dev/null 2>&1; then echo tpu; else echo cpu; fi)
endif
REQUIREMENTS := $(if $(filter cpu,$(DEVICE)),requirements.txt,requirements-$(DEVICE).txt)
# Named after what it stands for, so that another device, or another pin, installs anew.
INSTALLED := $(VENV)/installed-$(DEVICE)
INSTALLED_DEV := $(VENV)/installed-dev-$(DEVICE)

.NOTPARALLEL:
.PHONY: help quickstart test test-slow mutants lint sweep-core sweep clean

help:
	@echo 'make quickstart  train VPO and GRPO on the small maze (TASK=programs: on programs), draw the figure'
	@echo 'make test        the tests'
	@echo 'make test-slow   the tests of minutes'
	@echo 'make mutants     breaks the kernels, one place at a time: do the tests notice?'
	@echo 'make lint        ruff'
	@echo 'make sweep-core  the core methods over seeds, anew'
	@echo 'make sweep       all methods over seeds, those runs that have no result yet'

quickstart: $(INSTALLED)
	$(RUN) -m experiments.quickstart --task $(TASK)

sweep-core: $(INSTALLED)
	$(RUN) -m experiments.sweep --core --rerun

sweep: $(INSTALLED)
	$(RUN) -m experiments.sweep

test: $(INSTALLED_DEV)
	$(RUN) -m pytest -n 2 --durations=20

test-slow: $(INSTALLED_DEV)
	$(RUN) -m pytest -n 2 --durations=20 -m slow

mutants: $(INSTALLED_DEV)
	$(RUN) -m tests.mutants

lint: $(INSTALLED_DEV)
	$(RUN) -m ruff check

clean:
	rm -rf $(VENV) .jax_cache .pytest_cache .hypothesis .ruff_cache

$(RUN):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo '$(PYTHON) must be Python 3.11 or newer; name one: make PYTHON=python3.12 ...' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo 'The OS package python3-venv is missing: apt-get install python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)

$(INSTALLED): $(REQUIREMENTS) requirements.txt constraints.txt | $(RUN)
	$(RUN) -m pip install --quiet -r $(REQUIREMENTS)
	@touch $@

$(INSTALLED_DEV): requirements-dev.txt $(INSTALLED)
	$(RUN) -m pip install --quiet -r requirements-dev.txt
	@touch $@
