# `make demo`, `make test`, ...: each makes its own environment in .venv first.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile

# Ways to round: of oneDNN and XLA on other machines than this one. TensorFlow
# 2.21 crashes in a product of bfloat16 where a CPU has it and oneDNN may not.
ROUNDING ?= plain sse avx2
plain := TF_ENABLE_ONEDNN_OPTS=0 XLA_FLAGS=--xla_cpu_max_isa=SSE4_2
sse := ONEDNN_MAX_CPU_ISA=SSE41 XLA_FLAGS=--xla_cpu_max_isa=SSE4_2
avx2 := ONEDNN_MAX_CPU_ISA=AVX2 XLA_FLAGS=--xla_cpu_max_isa=AVX2
MECHANISMS := tests/core tests/receptive_field tests/focused tests/subsample \
	tests/pooling tests/test_initial_state.py tests/test_keep_mask.py
NUMERICAL ?= tests/test_tolerances.py $(MECHANISMS) \
	tests/conformance tests/training tests/analysis

# Python, TensorFlow and Keras of the environments of `test-versions`; what
# follows is installed over them. No nightly of TensorFlow, as TensorFlow Text is
# built for releases.
VERSIONS ?= oldest between newest
oldest := python3.10 tensorflow==2.18.1 keras==3.10.0
between := python3.12 tensorflow==2.20.0 keras==3.13.2
newest := python3.13 tensorflow==2.21.0 keras==3.15.1
nightly := $(newest) keras-nightly

BENCHMARKS ?= receptive_field pooling

export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: demo explore test test-short test-all test-long test-rounding test-versions lint \
	benchmark notebooks docs pages dist clean

demo: $(STAMP)
	$(BIN)/python -m examples.quickstart $(ARGS)

explore: $(STAMP)
	$(BIN)/python -m examples.explorer.serve $(ARGS)

test: lint test-short

test-short: $(STAMP)
	$(PYTEST) -m "not long and not slow" $(ARGS)

test-all: lint
	$(PYTEST) $(ARGS)
	$(MAKE) test-rounding

test-long: $(STAMP)
	$(PYTEST) -m "long and not slow" $(ARGS)

test-rounding: $(STAMP)
	@for way in $(foreach way,$(ROUNDING),"$($(way))"); do \
	echo "$$way"; \
	env $$way $(PYTEST) -m "not long and not slow" -k "not bfloat16" \
	$(NUMERICAL) $(ARGS) \
	|| exit 1; \
	done

# Each ends with its row of the table in docs/limits.md.
test-versions: $(VERSIONS:%=test-on-%)

test-on-%:
	$(MAKE) test-short PYTHON=$(firstword $($*)) VENV=.venv-$* \
	PINS="$(wordlist 2,3,$($*))" OVER="$(wordlist 4,9,$($*))" \
	ARGS="-p tests.versions $(ARGS)"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy

benchmark: $(STAMP)
	@for name in $(BENCHMARKS); do \
	$(BIN)/python -m benchmarks.$$name $(ARGS) || exit 1; \
	done

# The tutorials, for Jupyter where the package is installed.
notebooks:
	$(PYTHON) docs/extensions/notebooks.py
	@echo "Notebooks: build/notebooks"

SPHINX := $(BIN)/python -m sphinx -q -W --keep-going -c docs

docs: $(VENV)/installed-docs
	$(SPHINX) -d build/docs/doctrees . build/docs/html $(ARGS)
	@echo "The site: build/docs/html/index.html"

# The site without what tutorials print, to check its pages.
pages: $(VENV)/installed-docs
	$(SPHINX) -d build/pages/doctrees -D nb_execution_mode=off \
	-D suppress_warnings=myst-nb.lexer . build/pages/html $(ARGS)

$(VENV)/installed-docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@

# The wheel is used where nothing but it is installed.
dist: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	ARCHIVES=dist $(BIN)/python -m pytest tests/test_archives.py
	$(PYTHON) -m venv --clear build/installed
	build/installed/bin/python -m pip install --quiet dist/*.whl
	cd build/installed && bin/python -I ../../tests/installed_package.py

$(STAMP): setup.cfg pyproject.toml
	@command -v $(PYTHON) >/dev/null || \
	{ echo "No $(PYTHON): install it, or name one by PYTHON=."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]" $(PINS)
	[ -z "$(OVER)" ] || $(BIN)/python -m pip install --quiet --pre --no-deps $(OVER)
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info
