"""Vector FMA instructions per cycle: known by CPU model, for no CPU reports it.

Sources: the CPU makers' optimization guides and Agner Fog, *Instruction tables*.  Server models
that come with one or two AVX-512 FMA units under the same model number count as having two.
"""

from __future__ import annotations

# Intel family 6 client cores with AVX-512: only the fused ports 0 and 1 execute a 512-bit FMA.
_INTEL_ONE_ZMM_FMA = frozenset(
    {
        0x66,  # Cannon Lake
        0x7D,  # Ice Lake client
        0x7E,
        0x8C,  # Tiger Lake
        0x8D,
        0xA7,  # Rocket Lake
    }
)


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
    core = {"portable": 1, "avx2": 2, "avx512": 2}
    if vendor == "AuthenticAMD":
        if family == 0x17 and model < 0x30:
            core["avx2"] = 1  # Zen and Zen+: two 128-bit pipes
        if family == 0x19:
            core["avx512"] = 1  # Zen 4: two 256-bit pipes
    elif vendor == "HygonGenuine":
        core["avx2"] = 1  # derived from Zen
    elif vendor == "GenuineIntel" and family == 6 and model in _INTEL_ONE_ZMM_FMA:
        core["avx512"] = 1
    return {isa: core.get(isa, 1) for isa in isas}
