"""Arm without an Arm machine: the wheel is cross-built and tested under user-mode emulation.

``make test-arm`` and ``make demo-arm``, and for 32 bits ``make test-arm32`` (``make/arm.mk``), run
``python -m tools.arm``. Only QEMU and the cross compiler are packages of the machine; all else
lies in ``build/arm`` or ``build/arm32``:

===============  =================================================================================
module           what it makes or does
===============  =================================================================================
`host`           QEMU, cross compiler, cross libraries: says what is missing, installs it as root
`targets`        the machines: names, CPUs, where everything of each lies
`kept`           folders that are made anew only if their sources changed, whole or not at all
`sysroot`        Debian's Python and its libraries, by an apt with a state of its own
`packages`       wheels of what a build and the tests need, by the host's pip
`emulated`       the command that is this Python to everything else (``build/*/python``)
`bytecode`       what the host has compiled of tests and packages, where that Python looks for it
`wheel`          the wheel: built, tagged by auditwheel, unpacked where the emulated Python looks
`suite`          which tests run on which emulated CPU
`account`        which files and instruction sets all of that has reached
`demo`           the demo under emulation, compared with what the host's CPU computes
===============  =================================================================================

Emulation proves values, dispatch and memory accesses; it says nothing of speed, and does not show
weak memory ordering.
"""
