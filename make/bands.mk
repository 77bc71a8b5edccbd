# Networks band by band: the results must be those of layer by layer, whatever the height of bands.
# With ARGS=--columns, bands are of columns.
.PHONY: test-bands

BANDS ?= 1 2 3
BANDED := $(if $(filter tests,$(TESTS)),tests/network,$(TESTS))
# pytest's status without tests: a share of few tests may be empty.
NO_TESTS := $(if $(filter --share% --one-in% --part%,$(ARGS)),5,0)

test-bands: $(STAMPS)/extra-test ## the tests of networks in bands of BANDS="1 2 3" rows, wherever steps can be cut
	for rows in $(BANDS); do \
		$(BIN)/pytest -n auto -q -p no:cacheprovider --tier=fast --bands=$$rows $(BANDED) $(ARGS) \
			|| [ $$? = $(NO_TESTS) ] || exit 1; \
	done
