# What a release consists of, in dist/; see tools/wheels/__init__.py and docs/releasing.md.

.PHONY: wheels wheel release stranger

wheels: $(STAMPS)/extra-release ## sdist and repaired wheels, each tried alone; ARGS="--python 3.11 --twice"
	$(BIN)/python -m tools.wheels $(ARGS)

wheel: $(STAMPS)/extra-release ## repair and try only the wheel that `make test` has built, of PYTHON
	$(BIN)/python -m tools.wheels --built $(WHEELS)/*.whl

release: $(STAMPS)/extra-release ## refuse a tree that is not in order, else make wheels, each twice
	$(BIN)/python -m tools.release
	$(BIN)/python -m tools.wheels --twice $(ARGS)

stranger: $(STAMPS)/extra-release ## from a wheel in dist/ to a first picture in an empty environment, timed
	$(BIN)/python -m tools.stranger $(ARGS)
