# The suite as machines with fewer instruction sets run it.  `PPLCONV_MAX_ISA=avx2 make test-all` is
# all of it; this is the fast tier under each lower cap, collected once (tests/caps.py): the same
# tests in the same order with the same numbers each time, so that only a change can turn it red.
.PHONY: test-caps

FIXED_SEEDS := --tier-seed=1 --randomly-seed=1 --hypothesis-seed=1 --hypothesis-profile=quick

test-caps: $(STAMPS)/extra-test ## the fast tier under each lower PPLCONV_MAX_ISA that this machine has
	@# No tests: a machine with one level has no lower cap.
	$(BIN)/pytest -q -p no:cacheprovider --caps --tier=fast --unnamed $(FIXED_SEEDS) $(TESTS) $(ARGS) || [ $$? = 5 ]
