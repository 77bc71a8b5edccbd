"""Vector FMA instructions per cycle: known by CPU model, for no CPU reports it.

Server models that come with one or two AVX-512 FMA units under the same model number count as
having two.
"""

from __future__ import annotations

from . import x86_cores

# What plans take for cores without a row, and for instruction sets that the row does not have.
_USUAL = {"avx2": 2, "avx512": 2}


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
        known = {"avx2": found.core.fma256, "avx512": found.core.fma512}
        rates |= {isa: fma for isa, fma in known.items() if fma}
    return {isa: rates.get(isa, 1) for isa in isas}
