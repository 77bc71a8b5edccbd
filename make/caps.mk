# The suite as machines with fewer instruction sets run it.  `PPLCONV_MAX_ISA=avx2 make test-all` is
# all of it; this is a share of the fast tier under each lower cap: the same tests in the same order
# with the same numbers each time, so that only a change can turn it red.
.PHONY: test-caps

CAPS_ONE_IN ?= 2
# Rooms whose plans, and so whose results, depend on the level.
CAPS_TESTS := $(addprefix tests/,algorithms api demo imaging integrations kernels memory network \
	planner quant test_epilogue.py test_prune.py test_sharing.py test_shares.py)
CAPPED := $(if $(filter tests,$(TESTS)),$(CAPS_TESTS),$(TESTS))
# Files that have tests of narrow types: each worker of each run would collect all others in vain.
NARROW_TESTS = $(or $(shell grep -rl --include='test_*.py' 'pytest\.mark\.narrow' $(CAPPED)),$(CAPPED))
FIXED_SEEDS := --tier-seed=1 --randomly-seed=1 --hypothesis-seed=1 --hypothesis-profile=quick

test-caps: $(STAMPS)/extra-test ## one test in CAPS_ONE_IN=2 of the fast tier, under each lower PPLCONV_MAX_ISA that this machine has
	@caps=$$($(BIN)/python tests/lower_caps.py) || exit 1; for cap in $$caps; do \
		echo "PPLCONV_MAX_ISA=$$cap"; \
		PPLCONV_MAX_ISA=$$cap $(BIN)/pytest -n auto -q --tier=fast --unnamed \
			--one-in=$(CAPS_ONE_IN) $(FIXED_SEEDS) $(CAPPED) $(ARGS) || exit 1; \
	done
	@# All others would run as they do under another cap, or without one.
	@caps=$$($(BIN)/python tests/lower_caps.py narrow) || exit 1; for cap in $$caps; do \
		echo "PPLCONV_MAX_ISA=$$cap, tests of narrow types"; \
		PPLCONV_MAX_ISA=$$cap $(BIN)/pytest -n auto -q -m narrow --tier=fast --unnamed \
			$(FIXED_SEEDS) $(NARROW_TESTS) $(ARGS) || exit 1; \
	done
