"""Threads that nobody waits for: what they do may never end."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

__all__ = ["in_thread"]


def in_thread(function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
    """Call a function in a thread of its own, which delays neither loop nor process at their end.

    Threads of `asyncio.to_thread` are joined at the end, even if they wait for a file that never
    comes.

    Parameters
    ----------
    function : callable
        Function to call.
    *args
        Its arguments.

    Returns
    -------
    asyncio.Future
        Its result, as a future of the running loop.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = context.run(function, *args)
        except BaseException as caught:
            error = caught
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="pplconv-serve-makes", daemon=True).start()
    return future
