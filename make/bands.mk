# Networks band by band: the results must be those of layer by layer, whatever the height of bands.
# With ARGS=--columns, bands are of columns.
.PHONY: test-bands

BANDS ?= 1 2 3
BANDED := $(if $(filter tests,$(TESTS)),tests/network,$(TESTS))

test-bands: $(STAMPS)/extra-test ## the tests of networks in bands of BANDS="1 2 3" rows, wherever steps can be cut
	for rows in $(BANDS); do \
		$(BIN)/pytest -n auto -q -p no:cacheprovider --tier=fast --bands=$$rows $(BANDED) $(ARGS) \
			|| [ $$? = 5 ] || exit 1; \
	done
