# Networks band by band: the results must be those of layer by layer, whatever the height of bands.
.PHONY: test-bands

BANDS ?= 1 2 3

test-bands: $(STAMPS)/extra-test ## the tests of networks in bands of BANDS="1 2 3" rows, wherever steps can be cut
	set -e; for rows in $(BANDS); do \
		$(call pytest,-q --tier=fast --bands=$$rows $(if $(filter tests,$(TESTS)),tests/network,$(TESTS)) $(ARGS)); \
	done
