"""Arm without an Arm machine: the wheel is cross-built and tested under user-mode emulation.

``make test-arm`` and ``make demo-arm``, and for 32 bits ``make test-arm32`` (``make/arm.mk``), run
``python -m tools.arm``. Only QEMU and the cross compiler are installed on the machine; everything
else lies in ``build/arm`` or ``build/arm32``:

===============  =================================================================================
module           purpose
===============  =================================================================================
`host`           QEMU, cross compiler, cross libraries: lists missing ones, installs them as root
`targets`        the machines: names, CPUs, folders
`kept`           folders rebuilt only if their sources changed, in full or not at all
`sysroot`        Debian's Python and its libraries, by apt with a separate state
`packages`       wheels for the build and the tests, by the host's pip
`emulated`       the command that runs this Python (``build/*/python``)
`bytecode`       the host's bytecode of tests and packages, for the emulated Python
`wheel`          the wheel: built, tagged by auditwheel, unpacked for the emulated Python
`suite`          the test suite on the emulated CPUs, in shares
`account`        test files and instruction sets that all runs reached
`demo`           the demo under emulation, compared with the host's results
===============  =================================================================================

Emulation proves values, dispatch and memory accesses. It has no speed, and does not show weak
memory ordering.
"""
