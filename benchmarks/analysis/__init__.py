"""Speed of inner loops on cores that are not here, argued by models of their pipelines.

``python -m benchmarks.analysis aarch64`` takes the loops out of the generated assembly, asks
llvm-mca (and OSACA, where it is installed and has the core) what each core makes of them, and
writes ``benchmarks/ANALYSIS.md``.

================  ==============================================================================
``cores.py``      the cores: their names in the tools, their real properties
``loops.py``      the loops of each tile, and their instructions
``mca.py``        llvm-mca: found, run, its answer read
``osaca.py``      the same of OSACA
``limits.py``     the bound of a loop on a core
``footprint.py``  how much of L1 and L2 the blocks of the planner's estimate take
``page.py``       the page
================  ==============================================================================
"""
