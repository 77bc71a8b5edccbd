"""Several instances of a model in one program: requests in, futures out.

=====================  =========================================================================
``pool.py``            `InstancePool`: submit, map, statistics, close
``splitting.py``       how many instances of how many threads, and on which cores
``claims.py``          cores that pinned pools hold, and how processes learn of one another's
``placement.py``       `Placement`: node and cores of one instance
``arguments.py``       checks of the pool's arguments
``requests.py``        requests and their bounded queue; `QueueFull`, `PoolClosed`
``dispatcher.py``      the thread of an instance: takes requests, has them run, answers them
``batching.py``       requests joined into one call, and its result divided
``worker.py``          `Worker`: runs requests for a dispatcher; `WorkerDied`
``threaded.py``        workers of thread mode: the model of their node, called in the thread
``process.py``         workers of process mode: started, replaced, ended, their memory freed
``process_worker.py``  one of them as the parent sees it; ``child.py`` is what runs in it
``transport.py``       objects through memory; ``shared.py``: segments; ``errors.py``: exceptions
``_flat.pyx``          arrays in memory without a pickle; ``_mailbox.pyx``: where a message lies
``pinning.py``         a thread bound to its cores
``statistics.py``      `InstanceStatistics`: what an instance has done
``lifetime.py``        pools at the end of the interpreter, and in forked children
=====================  =========================================================================

A request goes like this: `submit` puts it in the queue, which wakes one dispatcher; that calls
`Worker.run` and sets the future. Nothing else is between the caller and the model: no thread that
passes it on, no lock but the queue's and the future's own.
"""

from __future__ import annotations

from .pool import InstancePool
from .requests import PoolClosed, QueueFull
from .statistics import InstanceStatistics
from .worker import WorkerDied

__all__ = ["InstancePool", "InstanceStatistics", "PoolClosed", "QueueFull", "WorkerDied"]
