"""Vector FMA instructions per cycle: known by CPU model, for no CPU reports it.

Server models that come with one or two AVX-512 FMA units under the same model number count as
having two.
"""

from __future__ import annotations

from . import x86_cores

# What plans take for cores without a row, and for instruction sets that the row does not have.
_USUAL = {"avx2": 2, "avx512": 2}

# Cores whose rows are younger than the plans that people have, which were made with two.
_AS_BEFORE = {("Gracemont", "avx2"), ("Zen 5 mobile", "avx512")}


def fma_per_cycle(vendor: str, family: int, model: int, isas: tuple[str, ...]) -> dict[str, int]:
    """Vector FMAs that one core retires per cycle, for each of `isas`.

    Parameters
    ----------
    vendor : str
        CPUID vendor.
    family, model : int
        CPUID family and model.
    isas : tuple of str
        Instruction sets of the machine.

    Returns
    -------
    dict of str to int
        ``portable`` counts as one: what the compiler makes of it is not known here.
    """
    rates = dict(_USUAL)
    found = x86_cores.find(vendor, family, model)
    if found:
        core = found.core
        for isa, fma in (("avx2", core.fma256), ("avx512", core.fma512)):
            if fma and (core.name, isa) not in _AS_BEFORE:
                rates[isa] = fma
    return {isa: rates.get(isa, 1) for isa in isas}
