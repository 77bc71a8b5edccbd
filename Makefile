# pplconv: everything from a fresh clone, in an environment of its own.  `make help` lists it.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
TESTS ?= tests
BENCH_EXTRAS ?= bench
ZOO_EXTRAS ?= test,zoo
# Without onnxruntime, if there is none for this Python: DEMO_EXTRAS=demo.
DEMO_EXTRAS ?= demo,compare
# Where benchmarks write their records; the page is made from them.
REPORT ?= benchmarks/report

BIN := $(VENV)/bin
WHEELS := $(VENV)/wheels
# sdist: the wheel is made of nothing but the sdist, as a release is, and the tests of packaging take
# both as they are. Otherwise the tree keeps what was compiled, for the next time.
WHEEL_OF ?= tree
BUILT_IN := $(if $(filter sdist,$(WHEEL_OF)),build/from-sdist,.)
BUILT_DIST := $(if $(filter sdist,$(WHEEL_OF)),PPLCONV_TEST_DIST="$(abspath $(WHEELS))")
# Stamps lie in the environment that they describe, and are removed with it.
STAMPS := $(VENV)/.stamps

SOURCES := $(sort $(wildcard pyproject.toml setup.py MANIFEST.in README.md LICENSE) \
	$(shell find asm pplconv -type f \( -name '*.py' -o -name '*.pyi' -o -name '*.pyx' \
		-o -name '*.pxd' -o -name '*.pxi' -o -name '*.c' -o -name '*.h' -o -name '*.s' \
		-o -name '*.S' -o -name py.typed \) ! -path 'pplconv/_*.c'))
C_FILES = $(shell find asm tests pplconv/schedules -name '*.h' -o \( -name '*.c' -not -path 'pplconv/*' \))
CYTHON_FILES = $(shell find pplconv -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi')

# An active environment must not leak in.  PIP_* stays: the user says where pip finds packages.
unexport PYTHONHOME PYTHONPATH VIRTUAL_ENV

# Tests that fail run once more, alone and with other draws; the run stays red. The exit status for
# "no tests" counts as success: a room may have no slow test.
SLOW_ONE_IN ?= 24
pytest = { cache=$$(mktemp -d); \
	$(BUILT_DIST) $(BIN)/pytest -n auto -o cache_dir=$$cache $(1); status=$$?; \
	if [ $$status = 1 ]; then \
		echo "ONCE MORE, ALONE: what passes now is FLAKY, or only some draws find it; mend either"; \
		$(BUILT_DIST) $(BIN)/pytest -o cache_dir=$$cache --last-failed -q -rpfE | \
			grep -E '^(PASSED|FAILED|ERROR)' | sed 's/^PASSED/FLAKY/'; \
	fi; \
	rm -rf $$cache; [ $$status = 0 ] || [ $$status = 5 ] || exit $$status; }

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# pip cannot work twice on one environment at the same time.
.NOTPARALLEL:
.PHONY: help demo test test-all test-changed test-slow quick bench bench-accuracy bench-report zoo lint install clean distclean FORCE

help: ## show this
	@echo 'usage: make TARGET [ARGS="..."] [TESTS=tests] [PYTHON=python3] [VENV=.venv]'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# -I keeps the working directory, which holds sources without modules, off the path.
demo: $(STAMPS)/extra-$(DEMO_EXTRAS) ## read a page with three networks, beside onnxruntime and NumPy
	$(BIN)/python -I examples/demo $(ARGS)

test: $(STAMPS)/extra-test ## run the fast tier of the tests: each guarantee, with fresh draws
	$(call pytest,--tier=fast $(TESTS) $(ARGS))

test-all: $(STAMPS)/extra-test ## run every test: before a release, and before an issue is closed
	$(call pytest,$(TESTS) $(ARGS))
	@# All of them, on all that the CPU has: what `make test-changed` compares with.
	[ "$(TESTS) $(ARGS)$$PPLCONV_MAX_ISA" != "tests " ] || $(BIN)/python tests/rooms.py record

test-changed: $(STAMPS)/extra-test ## the slow tier of rooms that differ from those tested by `make test-all`
	@rooms=$$($(BIN)/python tests/rooms.py changed) || exit 1; \
	if [ -n "$$rooms" ]; then $(call pytest,--tier=slow $$rooms $(ARGS)); \
	else echo "no room has changed since all of it was tested"; fi

test-slow: $(STAMPS)/extra-test ## of all other rooms, or of TESTS, a share of it: one test in SLOW_ONE_IN=24
	@tests="$(filter-out tests,$(TESTS))"; [ -n "$$tests" ] || \
		tests="$$($(BIN)/python tests/rooms.py unchanged) $$(echo tests/test_*.py)" || exit 1; \
	$(call pytest,--tier=slow --one-in=$(SLOW_ONE_IN) --share=$$(date +%j) $$tests $(ARGS))

quick: $(STAMPS)/extra-test ## seconds: the fast tier of ROOM=network, or of what differs from the last commit
	@rooms="$(addprefix tests/,$(ROOM))"; [ -n "$$rooms" ] || \
		rooms=$$($(BIN)/python tests/rooms.py edited) || exit 1; \
	if [ -n "$$rooms" ]; then $(BIN)/pytest -n auto -q --tier=fast $$rooms $(ARGS) || [ $$? = 5 ]; \
	else echo "nothing differs from the last commit that a test is about"; fi

bench: $(STAMPS)/extra-$(BENCH_EXTRAS) ## measure beside the peers that are there; BENCH_EXTRAS=peers installs them
	$(BIN)/python -m benchmarks.run --json $(REPORT)/run.json $(ARGS)

bench-accuracy: $(STAMPS)/extra-$(BENCH_EXTRAS) ## measure error and speed of each algorithm on 3x3 layers
	$(BIN)/python -m benchmarks.accuracy --json $(REPORT)/accuracy.json $(ARGS)

# All of them are 0.6 GB of packages that ship models, and PyTorch with 5 GB of files that are exported.
# ZOO_EXTRAS=test ARGS=--models=basic_pitch,silero_vad takes some that are shipped, without PyTorch.
zoo: $(STAMPS)/extra-$(ZOO_EXTRAS) ## download or export models of packages, and run them beside other engines
	$(BIN)/python -m benchmarks.networks.zoo $(ARGS)

bench-report: $(STAMPS)/extra-report ## make a page and charts of the last two, in REPORT=benchmarks/report
	$(BIN)/python -m benchmarks.page --out $(REPORT) $(REPORT)/run.json \
		$(if $(wildcard $(REPORT)/accuracy.json),--accuracy $(REPORT)/accuracy.json) $(ARGS)

lint: $(STAMPS)/extra-dev ## check style and types
	$(BIN)/ruff check --extend-exclude $(VENV) .
	$(BIN)/ruff format --check --extend-exclude $(VENV) .
	$(BIN)/mypy
	@# It looks for pycodestyle on the path.
	PATH="$$(cd $(BIN) && pwd):$$PATH" cython-lint $(CYTHON_FILES)
	$(BIN)/clang-format --dry-run -Werror $(C_FILES)

install: $(STAMPS)/package ## make the environment, with the package alone

clean: ## remove what was built and cached here, but not the environment
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	rm -rf $(WHEELS) $(STAMPS)/wheel-of-* $(STAMPS)/sources pplconv-demo.png
	rm -f pplconv/*.so
	find asm pplconv tests benchmarks examples tools -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove the environment too, if it was made here
	@if [ -e $(STAMPS)/venv ]; then rm -rf $(VENV); fi

# Programs that a build needs, each with its Debian package.
define CHECK
import os, shutil, sys, sysconfig
missing = []
if sys.version_info < (3, 10):
    missing.append("Python 3.10 or newer (this is %d.%d): set PYTHON" % sys.version_info[:2])
try:
    import ensurepip, venv
except ImportError:
    missing.append("the modules venv and ensurepip (python3-venv)")
if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
    missing.append("Python.h (python3-dev)")
if not shutil.which((os.environ.get("CC") or "gcc").split()[0]):
    missing.append("a C compiler (gcc), or CC naming one")
sys.exit("cannot build pplconv with %s, missing:\n  %s" % (sys.executable, "\n  ".join(missing))
         if missing else 0)
endef
export CHECK

$(STAMPS)/venv:
	@$(PYTHON) -c "$$CHECK"
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS)
	@touch $@

# Changes when a source is added or removed, which no file's time shows.
$(STAMPS)/sources: FORCE | $(STAMPS)/venv
	@echo $(SOURCES) | cmp -s - $@ || echo $(SOURCES) > $@

$(STAMPS)/wheel-of-$(WHEEL_OF): $(SOURCES) $(STAMPS)/sources | $(STAMPS)/venv
	@# setuptools packs whatever lies in build/lib*, files of earlier days included.
	rm -rf build/lib* $(WHEELS) $(STAMPS)/wheel-of-*
ifeq ($(WHEEL_OF),sdist)
	$(BIN)/python -m pip install build
	$(BIN)/python -m build --sdist --outdir $(WHEELS) .
	@# Always in this folder, which keeps what was compiled for `make test-encode`.
	rm -rf $(BUILT_IN) && mkdir -p $(BUILT_IN)
	tar -xzf $(WHEELS)/*.tar.gz -C $(BUILT_IN) --strip-components=1
endif
	$(BIN)/python -m pip wheel --no-deps --wheel-dir $(WHEELS) $(BUILT_IN)
	@touch $@

$(STAMPS)/package: $(STAMPS)/wheel-of-$(WHEEL_OF)
	@# Forced, for the version may be that of the one installed before; then what it depends on.
	$(BIN)/python -m pip install --force-reinstall --no-deps $(WHEELS)/*.whl
	$(BIN)/python -m pip install $(WHEELS)/*.whl
	@touch $@

# An extra only adds packages, so only new requirements matter to it.
$(STAMPS)/extra-%: pyproject.toml | $(STAMPS)/package
	$(BIN)/python -m pip install "$$(echo $(WHEELS)/*.whl)[$*]"
	@touch $@

include $(sort $(wildcard make/*.mk))
