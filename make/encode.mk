# A build whose assembler is told the instructions of narrow products as bytes or words, as one that
# does not know them would be; see asm/README.md.
.PHONY: test-encode

test-encode: build/encode/.installed ## kernels of narrow products, built without their mnemonics
	build/encode/venv/bin/python $(BIN)/pytest -n auto -q --one-in=8 $(FIXED_SEEDS) \
		tests/kernels/test_gemm_kernels.py tests/kernels/test_narrow_gemm.py \
		tests/kernels/test_tile_kernels.py $(ARGS)

build/encode/.installed: export PPLCONV_ENCODE = 1
build/encode/.installed: SANITIZED = $(CFLAGS)
