# A build that writes the instructions of narrow products as numbers, as for an assembler that lacks
# them; see asm/README.md.
.PHONY: test-encode

test-encode: build/encode/.installed ## kernels of narrow products, built without their mnemonics
	build/encode/venv/bin/python $(BIN)/pytest -n auto -q --one-in=8 $(FIXED_SEEDS) \
		tests/kernels/test_product_kernels.py tests/kernels/test_narrow_gemm.py \
		tests/kernels/test_tile_kernels.py $(ARGS)

# In the folder of the normal build, where everything but these kernels is up to date.
build/encode/.installed: $(STAMPS)/extra-test
	rm -rf build/encode $(BUILT_IN)/build/lib*
	PPLCONV_ENCODE=1 $(BIN)/python -m pip wheel --no-deps --wheel-dir build/encode/wheels $(BUILT_IN)
	$(call beside_the_normal_one,encode)
	@touch $@
