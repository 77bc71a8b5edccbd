"""A model on a Ray cluster: Serve's replicas share one copy of packed weights on each node.

::

    import numpy as np, pplconv, ray
    from ray import serve
    from pplconv.integrations.ray_serve import deployment, keeper

    def make_model():
        weights = np.load("/models/edges-1.npz")          # on each node
        return pplconv.Conv2d(weights["w"], padding=1, input_shape=(1, 3, 640, 640))

    ray.init("auto")
    weights = keeper("edges-1", make_model)
    serve.run(deployment(weights, num_replicas=4, num_cpus=2), name="edges")

A replica answers a ``POST`` of a ``.npy`` file with a ``.npy`` file, and arrays from Serve's
handles with arrays; see docs/ray.md.

The weights belong to the keeper, an actor without a driver. Ray drops an object when the process
that put it ends: if the deploying driver put the weights, no replica could start after its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from pplconv.integrations import npy, told
from pplconv.sharing import Prepared, prepared

with told("ray_serve", "pplconv[ray]"):
    import cloudpickle
    import ray
    from ray import serve
    from ray.util import list_named_actors
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["Keeper", "deployment", "keeper", "release"]

_NAMESPACE = "pplconv"
# Ray stores a larger argument as an object of the process that starts the actor. The object ends
# with that process, and then the actor could not be restarted. Ray's own limit is 100 KiB for an
# argument.
_LARGEST_MAKER = 90_000
# If a keeper dies after it gave a reference and before its use, the object is lost: try again.
_TRIES = 5


@dataclass(frozen=True)
class Keeper:
    """The keepers of one name, wherever they run; made by `keeper`.

    It can be pickled and holds no weights. The keeper of a node starts when the first replica
    there asks for it.

    Attributes
    ----------
    name : str
        Name of the weights, as given to `keeper`.
    """

    name: str
    _maker: bytes

    def fetch(self, threads: int) -> Prepared:
        """Give this node's packed weights, mapped read-only from Ray's object store.

        Parameters
        ----------
        threads : int
            Team that plans are made for.

        Returns
        -------
        pplconv.sharing.Prepared
            Its arrays lie in the store, which keeps them while they are used.

        Raises
        ------
        ray.exceptions.RayError
            If the keeper cannot be started; the cause says what `make_model` raised.
        """
        for _ in range(_TRIES - 1):
            try:
                return self._fetched(threads)
            except ray.exceptions.ObjectLostError:  # its owner has died; Ray starts it again
                pass
        return self._fetched(threads)

    def _fetched(self, threads: int) -> Prepared:
        (reference,) = ray.get(self._here().weights.remote(threads))
        found: Prepared = ray.get(reference)
        return found

    def _here(self) -> Any:
        """The keeper of this node, started if there is none."""
        node = ray.get_runtime_context().get_node_id()
        return _KeeperActor.options(
            name=_actor_name(self.name, node),
            namespace=_NAMESPACE,
            get_if_exists=True,
            lifetime="detached",
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            num_cpus=0,
            max_restarts=-1,
            max_task_retries=-1,
        ).remote(self._maker)

    def release(self) -> None:
        """End the keepers of all nodes, as `pplconv.integrations.ray_serve.release` does."""
        release(self.name)


def keeper(name: str, make_model: Callable[[], Callable[..., Any]]) -> Keeper:
    """Start the owner of a model's packed weights: a detached actor on each node that has replicas.

    The one of this node starts now, so that an error of `make_model` is seen here.

    Parameters
    ----------
    name : str
        Name of the weights, in the whole cluster. Give other weights another name, so that
        replicas of both can live side by side while a deployment is replaced.
    make_model : callable
        Called without arguments, once in each keeper; returns the model: a `Conv2d`, an
        `InferenceSession` or anything that can be pickled and holds some, of a class that every
        node can import. Plans that they were prepared for (``input_shape=`` or a call) are ready in
        each replica. `make_model` has to be small, at most 90000 bytes as a pickle: let it load the
        weights from a file that each node has.

    Returns
    -------
    Keeper
        For `deployment`.

    Raises
    ------
    TypeError
        If an argument is not as described, or `make_model` does not return a callable.
    ValueError
        If there is a keeper of this name, or `make_model` is too large.
    RuntimeError
        If Ray has not been started in this process.
    ray.exceptions.RayError
        If the keeper cannot be started; the cause says what `make_model` raised.

    Notes
    -----
    Keepers outlive drivers; `release` ends them. Weights that replicas have mapped stay until the
    replicas end. A keeper that dies is started again by Ray and makes the model anew.
    """
    _check_keeper(name, make_model)
    maker = cloudpickle.dumps(make_model)
    if len(maker) > _LARGEST_MAKER:
        raise ValueError(
            f"make_model is {len(maker)} bytes as a pickle, at most {_LARGEST_MAKER} outlive the "
            "process that calls keeper: let make_model load the weights from a file"
        )
    if not ray.is_initialized():
        raise RuntimeError("Ray has not been started in this process: call ray.init first")
    if _named(name):
        raise ValueError(
            f"name is {name!r}, of which there is a keeper: other weights take another name; "
            "release(name) ends it"
        )
    kept = Keeper(name, maker)
    try:
        ray.get(kept._here().weights.remote(1))
    except BaseException:
        release(name)
        raise
    return kept


def _check_keeper(name: Any, make_model: Any) -> None:
    if not isinstance(name, str) or not name or ":" in name:
        raise ValueError(f"name is {name!r}: expected some text without a colon")
    if not callable(make_model):
        raise TypeError(f"make_model must be callable, got {type(make_model).__name__}")


def release(name: str) -> None:
    """End all keepers of one name.

    Running replicas keep the weights that they have mapped. Replicas that start later start a
    keeper again. So release a name when no deployment uses it any longer.

    Parameters
    ----------
    name : str
        As given to `keeper`. Nothing happens if there is none.
    """
    for actor in _named(name):
        with suppress(ValueError):  # it has just ended
            ray.kill(ray.get_actor(actor, namespace=_NAMESPACE))


def _named(name: str) -> list[str]:
    found = list_named_actors(all_namespaces=True)
    return [
        one["name"]
        for one in found
        if one["namespace"] == _NAMESPACE and one["name"].startswith(_actor_name(name, ""))
    ]


def _actor_name(name: str, node: str) -> str:
    return f"keeper:{name}:{node}"


class WeightsKeeper:
    """Owns the packed weights of one node."""

    def __init__(self, maker: bytes) -> None:
        self._references: dict[int, Any] = {}
        model = cloudpickle.loads(maker)()
        if not callable(model):
            raise TypeError(f"make_model must return a callable, got {type(model).__name__}")
        self._model = model

    def weights(self, threads: int) -> list[Any]:
        """Give a reference to the model for teams of this size; in a list, or Ray resolves it."""
        if threads not in self._references:
            try:
                taken = prepared(self._model, threads)
            except Exception as error:
                raise TypeError(
                    f"the model, a {type(self._model).__name__}, cannot be pickled: {error}. Its "
                    "classes have to lie in modules that every node can import, not in the program "
                    "that calls keeper"
                ) from error
            self._references[threads] = ray.put(taken)
            # Use the store's copy here too, so that the first one can be freed.
            self._model = ray.get(self._references[threads]).model()
        return [self._references[threads]]


_KeeperActor = ray.remote(WeightsKeeper)


class _Replica:
    """Answers requests with the model of its node's keeper."""

    def __init__(self, weights: Keeper, threads: int, max_body: int) -> None:
        self._max_body = max_body
        self._model = weights.fetch(threads).model()

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], Request):
            return await self._over_http(args[0])
        return await asyncio.to_thread(self._model, *args, **kwargs)

    async def _over_http(self, request: Request) -> Response:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > self._max_body:
                return _refused(413, f"the body has more than {self._max_body} bytes")
        try:
            x = npy.read(body)
            answer = await asyncio.to_thread(self._model, x)
        except (TypeError, ValueError) as error:  # the array does not fit the model
            return _refused(422, str(error))
        if not isinstance(answer, np.ndarray):
            return _refused(500, f"the model's answer is no array but {type(answer).__name__}")
        return Response(npy.write(answer), media_type=npy.MEDIA_TYPE)


def _refused(status: int, text: str) -> Response:
    return Response(text + "\n", status, media_type="text/plain")


def deployment(
    weights: Keeper,
    *,
    num_replicas: int | str = 1,
    num_cpus: float = 1,
    max_body: int = 64 << 20,
    **options: Any,
) -> serve.Application:
    """Describe a Serve application whose replicas share a keeper's weights, for ``serve.run``.

    Parameters
    ----------
    weights : Keeper
        From `keeper`.
    num_replicas : int or "auto", optional
        As of ``serve.deployment``.
    num_cpus : float, optional
        CPUs of a replica: its team. Ray sets ``OMP_NUM_THREADS`` to this number, unless the cluster
        was started with that variable set. Threads are bound to no core: Ray only counts CPUs, and
        several replicas would choose the same ones.
    max_body : int, optional
        Bytes of a request over HTTP; larger ones get 413.
    **options
        Other options of ``serve.deployment``, such as ``max_ongoing_requests`` (2 here: one is
        computed while the next one arrives) and ``max_queued_requests`` (100 here; more get 503).

    Returns
    -------
    ray.serve.Application
        ``serve.run(application, name=...)`` deploys it, and replaces one of the same name replica
        by replica: each request is answered by the old weights or by the new ones.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.
    """
    _check_deployment(weights, num_cpus, max_body)
    actor = {**options.pop("ray_actor_options", {}), "num_cpus": num_cpus}
    settings = {"name": "Model", "max_ongoing_requests": 2, "max_queued_requests": 100, **options}
    made = serve.deployment(num_replicas=num_replicas, ray_actor_options=actor, **settings)
    application: serve.Application = made(_Replica).bind(weights, max(1, int(num_cpus)), max_body)
    return application


def _check_deployment(weights: Any, num_cpus: Any, max_body: Any) -> None:
    if not isinstance(weights, Keeper):
        raise TypeError(
            f"weights must be what keeper(name, make_model) returns, got {type(weights).__name__}"
        )
    if isinstance(num_cpus, bool) or not isinstance(num_cpus, int | float) or not num_cpus > 0:
        raise ValueError(f"num_cpus is {num_cpus!r}: expected a number above 0")
    if isinstance(max_body, bool) or not isinstance(max_body, int) or max_body < 1:
        raise ValueError(f"max_body is {max_body!r}: expected a number of bytes")
