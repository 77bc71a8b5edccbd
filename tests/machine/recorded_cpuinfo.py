"""Identities from /proc/cpuinfo for each row of the table of x86 cores, and the expected cores."""

from __future__ import annotations

CPUINFO = {
    "GenuineIntel 6 60 Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz": "Haswell (4th Core)",
    "GenuineIntel 6 63 Intel(R) Xeon(R) CPU E5-2680 v3 @ 2.50GHz": "Haswell (Xeon E v3)",
    "GenuineIntel 6 61 Intel(R) Core(TM) i5-5200U CPU @ 2.20GHz": "Broadwell (5th Core)",
    "GenuineIntel 6 79 Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.60GHz": "Broadwell (Xeon E v4)",
    "GenuineIntel 6 86 Intel(R) Xeon(R) CPU D-1541 @ 2.10GHz": "Broadwell (Xeon D-1500)",
    "GenuineIntel 6 94 Intel(R) Core(TM) i7-6700K CPU @ 4.00GHz": "Skylake client (6th Core)",
    "GenuineIntel 6 158 Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz": (
        "Skylake client (7th to 10th Core)"
    ),
    "GenuineIntel 6 165 Intel(R) Core(TM) i9-10900K CPU @ 3.70GHz": "Skylake client (10th Core)",
    "GenuineIntel 6 85 Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz": "Skylake server (Xeon Scalable)",
    "GenuineIntel 6 85 Intel(R) Xeon(R) Gold 5122 CPU @ 3.60GHz": "Skylake server (Xeon Scalable)",
    "GenuineIntel 6 85 Intel(R) Xeon(R) Platinum 8175M CPU @ 2.50GHz": (
        "Skylake server (Xeon Scalable)"
    ),
    "GenuineIntel 6 85 Intel(R) Core(TM) i9-7900X CPU @ 3.30GHz": "Skylake server (Xeon Scalable)",
    "GenuineIntel 6 85 Intel(R) Xeon(R) CPU @ 2.00GHz": "Skylake server (Xeon Scalable)",
    "GenuineIntel 6 85 Intel(R) Xeon(R) Silver 4114 CPU @ 2.20GHz": (
        "Skylake server with one 512-bit FMA unit (Xeon Scalable)"
    ),
    "GenuineIntel 6 85 Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz": (
        "Cascade Lake (2nd Xeon Scalable)"
    ),
    "GenuineIntel 6 85 Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz": (
        "Cascade Lake (2nd Xeon Scalable)"
    ),
    "GenuineIntel 6 85 Intel Xeon Processor (Cascadelake)": "Cascade Lake (2nd Xeon Scalable)",
    "GenuineIntel 6 85 Intel(R) Xeon(R) Gold 5218 CPU @ 2.30GHz": (
        "Cascade Lake with one 512-bit FMA unit (2nd Xeon Scalable)"
    ),
    "GenuineIntel 6 85 Intel(R) Xeon(R) Gold 5222 CPU @ 3.80GHz": (
        "Cascade Lake (2nd Xeon Scalable)"
    ),
    "GenuineIntel 6 85 Intel(R) Xeon(R) Platinum 8380H CPU @ 2.90GHz": (
        "Cooper Lake (3rd Xeon Scalable)"
    ),
    "GenuineIntel 6 102 Intel(R) Core(TM) i3-8121U CPU @ 2.20GHz": "Cannon Lake (8th Core)",
    "GenuineIntel 6 126 Intel(R) Core(TM) i7-1065G7 CPU @ 1.30GHz": "Ice Lake client (10th Core)",
    "GenuineIntel 6 106 Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz": (
        "Ice Lake server (3rd Xeon Scalable)"
    ),
    "GenuineIntel 6 108 Intel(R) Xeon(R) D-2776NT CPU @ 2.10GHz": (
        "Ice Lake server (Xeon D-1700 and D-2700)"
    ),
    "GenuineIntel 6 140 11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz": "Tiger Lake (11th Core)",
    "GenuineIntel 6 167 11th Gen Intel(R) Core(TM) i9-11900K @ 3.50GHz": "Rocket Lake (11th Core)",
    "GenuineIntel 6 143 Intel(R) Xeon(R) Platinum 8480+": "Sapphire Rapids (4th Xeon Scalable)",
    "GenuineIntel 6 207 INTEL(R) XEON(R) PLATINUM 8592+": "Emerald Rapids (5th Xeon Scalable)",
    "GenuineIntel 6 173 Intel(R) Xeon(R) 6980P": "Granite Rapids (Xeon 6)",
    "GenuineIntel 6 151 12th Gen Intel(R) Core(TM) i9-12900K": (
        "Golden Cove (12th Core), efficiency cores Gracemont"
    ),
    "GenuineIntel 6 183 13th Gen Intel(R) Core(TM) i9-13900K": (
        "Raptor Cove (13th and 14th Core), efficiency cores Gracemont"
    ),
    "GenuineIntel 6 190 Intel(R) N100": "Gracemont (N-series)",
    "AuthenticAMD 23 1 AMD EPYC 7551 32-Core Processor": "Zen 1 (EPYC 7001, Ryzen 1000 and 2000)",
    "AuthenticAMD 23 24 AMD Ryzen 7 3700U with Radeon Vega Mobile Gfx": (
        "Zen 1 (Ryzen 2000 and 3000 with graphics)"
    ),
    "HygonGenuine 24 0 Hygon C86 7185 32-core Processor": "Zen 1 (Hygon C86)",
    "AuthenticAMD 23 49 AMD EPYC 7742 64-Core Processor": "Zen 2 (EPYC 7002)",
    "AuthenticAMD 23 113 AMD Ryzen 9 3900X 12-Core Processor": "Zen 2 (Ryzen 3000)",
    "AuthenticAMD 25 1 AMD EPYC 7763 64-Core Processor": "Zen 3 (EPYC 7003)",
    "AuthenticAMD 25 33 AMD Ryzen 9 5950X 16-Core Processor": "Zen 3 (Ryzen 5000)",
    "AuthenticAMD 25 68 AMD Ryzen 7 6800U with Radeon Graphics": "Zen 3 (Ryzen 6000)",
    "AuthenticAMD 25 17 AMD EPYC 9654 96-Core Processor": "Zen 4 (EPYC 9004)",
    "AuthenticAMD 25 97 AMD Ryzen 9 7950X 16-Core Processor": "Zen 4 (Ryzen 7000)",
    "AuthenticAMD 25 116 AMD Ryzen 7 7840U w/ Radeon 780M Graphics": "Zen 4 (Ryzen 7040 and 8040)",
    "AuthenticAMD 25 160 AMD EPYC 9754 128-Core Processor": "Zen 4c (EPYC 9704 and 8004)",
    "AuthenticAMD 26 2 AMD EPYC 9755 128-Core Processor": "Zen 5 (EPYC 9005)",
    "AuthenticAMD 26 17 AMD EPYC 9965 192-Core Processor": "Zen 5c (EPYC 9005)",
    "AuthenticAMD 26 68 AMD Ryzen 9 9950X 16-Core Processor": "Zen 5 (Ryzen 9000)",
    "AuthenticAMD 26 36 AMD Ryzen AI 9 HX 370 w/ Radeon 890M": "Zen 5 mobile (Ryzen AI 300)",
}
"""vendor_id, cpu family, model and model name: the core and where it is found."""
