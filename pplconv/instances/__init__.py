"""Several instances of a model in one program: requests in, futures out.

=====================  =========================================================================
``pool.py``            `InstancePool`: submit, map, statistics, close
``splitting.py``       numbers of instances and of their threads, and their cores
``claims.py``          cores that pinned pools hold, and how processes learn of one another's
``worker_placement``   `Placement`: node and cores of one instance
``pool_arguments.py``  checks of the pool's arguments
``requests.py``        requests and their bounded queue; `QueueFull`, `PoolClosed`
``dispatcher.py``      the thread of an instance: takes requests, has them run, answers them
``joined_requests``    requests joined into one call, and its result divided
``worker.py``          `Worker`: runs requests for a dispatcher; `WorkerDied`
``threaded.py``        workers of thread mode: the model of their node, called in the thread
``process.py``         workers of process mode: started, replaced, ended, their memory freed
``process_worker.py``  one of them, seen from the parent; ``child.py``: the code that runs in it
``forking.py``         the process that forks workers; ``spare.py``: cores that requests leave idle
``transport.py``       objects through memory; ``shared.py``: segments
``pool_errors.py``     exceptions from workers
``_flat.pyx``          arrays in memory without a pickle; ``_mailbox.pyx``: short messages
``worker_pinning.py``  a thread bound to its cores
``statistics.py``      `InstanceStatistics`: what an instance has done
``lifetime.py``        pools at the end of the interpreter, and in forked children
=====================  =========================================================================

The path of a request: `submit` puts it in the queue, which wakes one dispatcher. The dispatcher
calls `Worker.run` and sets the future. Nothing else stands between the caller and the model: no
further thread, and no lock except those of the queue and of the future.
"""

from __future__ import annotations

from .pool import InstancePool
from .requests import PoolClosed, QueueFull
from .statistics import InstanceStatistics
from .worker import WorkerDied

__all__ = ["InstancePool", "InstanceStatistics", "PoolClosed", "QueueFull", "WorkerDied"]
