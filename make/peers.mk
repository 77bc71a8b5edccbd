# The peers that pplconv is measured against, in an environment of their own on top of the normal
# one: their packages must not change what `make test` tests.
.PHONY: test-peers

test-peers: build/peers/.installed ## each peer that can be installed: a small layer through its adapter; PyTorch's modules
	@cat build/peers/installed
	build/peers/venv/bin/python $(BIN)/pytest -q -m slow tests/benchmarks/test_bench_peers.py \
		tests/benchmarks/test_torch_padding.py $(ARGS)
	@# Status 5: PyTorch is not there, as the list above says, and no test was collected.
	build/peers/venv/bin/python $(BIN)/pytest -q tests/integrations tests/benchmarks \
		-k "test_torch or test_bench_torch" $(ARGS) || test $$? = 5

build/peers/.installed: pyproject.toml tools/peers.py | $(STAMPS)/extra-test
	@mkdir -p build/peers
	rm -rf build/peers/venv
	$(BIN)/python -m venv --without-pip build/peers/venv
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))' \
		> "$$(build/peers/venv/bin/python -c \
			'import sysconfig; print(sysconfig.get_path("platlib"))')/everything_else.pth"
	$(BIN)/python -m tools.peers build/peers/venv/bin/python > build/peers/installed
	@touch $@
