"""The cache of compiled networks: its folder, its size, and how to empty it.

`pplconv.InferenceSession` keeps what it compiles in the user's cache, so that the next process
starts with it. ``PPLCONV_CACHE`` names another folder, or ``off``.
"""

from __future__ import annotations

from typing import Any

__all__ = ["clear", "describe"]


def describe() -> dict[str, Any]:
    """Tell where the cache is, and how large.

    Returns
    -------
    dict
        ``path`` of the folder, None if there is no cache; ``programs``, their number; ``bytes`` of
        all files; ``most_bytes``, above which those go that were not used for the longest time.

    Examples
    --------
    >>> pplconv.cache.describe()["path"]  # doctest: +SKIP
    '/home/user/.cache/pplconv/networks'
    """
    from .network.kept import cache_folder

    home = cache_folder.folder()
    found = [] if home is None else list(cache_folder.contents(home))
    programs = sum(not path.endswith(cache_folder.INTERFACE) for *_, path in found)
    return {
        "path": home, "programs": programs, "bytes": sum(size for _, size, _ in found),
        "most_bytes": cache_folder.MOST_BYTES,
    }  # fmt: skip


def clear() -> None:
    """Remove all compiled networks from the cache.

    Sessions go on: what they use stays on the disk until they end.

    Raises
    ------
    OSError
        If the system refuses.

    Examples
    --------
    >>> pplconv.cache.clear()  # doctest: +SKIP
    """
    from .network.kept import cache_folder

    cache_folder.clear()
