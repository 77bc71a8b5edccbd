"""The adapters of the peers compute what they are asked: one small layer through each."""

from __future__ import annotations

from functools import partial

import pytest

from benchmarks.candidates import OK, make_case, prepare_checked
from benchmarks.engines import ENGINES, bf16, quantized, sparse
from benchmarks.problems import parse
from benchmarks.quantized.layers import make_quantized_case, make_rounded_case
from benchmarks.sparse.layers import BLOCKS, make_pruned_case
from tests.benchmarks.known_runs import installed

# Engines, each with the function that makes its data.
PEERS = {
    engine.name: (engine, make)
    for engines, make in (
        (ENGINES.values(), make_case),
        (quantized.ENGINES, make_quantized_case),
        (bf16.ENGINES, make_rounded_case),
    )
    for engine in engines
    if not engine.ours
}
PEERS |= {
    engine.name: (engine, partial(make_pruned_case, density=0.25, blocks=BLOCKS))
    for engine in sparse.ENGINES["fp32"]
    if not engine.ours and engine.name not in PEERS
}
# Padding, a stride and channels that fill no vector: adapters may mix them up.
LAYER = "mb1ic12ih11iw9oc20kh3sh2sw1ph1pw0"


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", PEERS)
def test_one_layer(name, threads):
    """At its best settings, as the benchmarks run it; a skip names a peer that is not installed."""
    engine, make = PEERS[name]
    candidate = prepare_checked(installed(engine), make(parse(LAYER)), threads)
    assert candidate.status == OK, candidate.detail
    assert candidate.error <= engine.tolerance
