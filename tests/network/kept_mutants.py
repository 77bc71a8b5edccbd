"""Files that are almost compiled networks: small ones with a few values of their index changed.

The checksum of the index is right, so that whatever it says is looked at. A seed says everything.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pplconv.network.kept.container import Content, parts_of, read
from pplconv.network.session import InferenceSession
from tests.network.model_mutants import NUMBERS, REALS, Mutant
from tests.network.small_models import SMALL, grouped

__all__ = ["mutant", "originals"]

Place = tuple[Any, Any]
"""A list or an object of JSON, and the index or key of a value in it."""


@cache
def originals() -> dict[str, Content]:
    """The files that are mutated: of all small networks that a file can hold."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, make in (*SMALL.items(), ("grouped", grouped)):
            small, path = make(), Path(folder) / name
            session = InferenceSession(small.model, fallback="silent")
            session.run(None, small.feed)
            try:
                session.save(path, portable=name == "classifier")
            except ValueError:
                continue  # sizes depend on data, or a node runs in Python
            content = read(path.read_bytes())
            assert isinstance(content.index.pop("blocks"), list)
            found[name] = content
    return found


def places(value: Any) -> Iterator[Place]:
    """Yield the places of all values inside a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for at, each in items:
        yield value, at
        if isinstance(each, (dict, list)):
            yield from places(each)


def another(rng: random.Random, value: Any, texts: list[str]) -> Any:
    """Give another value, more often one of the same kind."""
    if not rng.randrange(8):
        return rng.choice((None, True, "x", -1, [], {"list": []}, {"at": 0}, 1.5))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice(
            (value + 1, value - 1, 2 * value, value // 2, -value, rng.choice(NUMBERS))
        )
    if isinstance(value, float):
        return rng.choice(REALS)
    if isinstance(value, str):
        return rng.choice(texts)
    if isinstance(value, list) and value:
        kept = list(value)
        at = rng.randrange(len(kept))
        what = rng.randrange(3)
        if what == 0:
            del kept[at]
        elif what == 1:
            kept.insert(at, rng.choice(kept))
        else:
            rng.shuffle(kept)
        return kept
    if isinstance(value, dict) and value:
        kept = dict(value)
        del kept[rng.choice(list(kept))]
        return kept
    return None


def change(rng: random.Random, index: dict[str, Any]) -> str:
    """Change, exchange or copy a value of the index."""
    found = list(places(index))
    holder, at = rng.choice(found)
    if rng.randrange(4) == 0:
        other, where = rng.choice(found)
        holder[at] = json.loads(json.dumps(other[where]))
        return f"{at}: what is at {where}"
    texts = [each[key] for each, key in found if isinstance(each[key], str)]
    before = json.dumps(holder[at])[:60]
    holder[at] = another(rng, holder[at], texts)
    return f"{at}: {before} became {json.dumps(holder[at])[:60]}"


def mutant(seed: int) -> Mutant:
    """Make the file of a number."""
    rng = random.Random(seed)
    name = rng.choice(list(originals()))
    content = originals()[name]
    index = json.loads(json.dumps(content.index))
    blocks = [np.array(block) for block in content.blocks]
    said = [change(rng, index) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    if not rng.randrange(10):
        block = rng.choice([block for block in blocks if block.size])
        block[rng.randrange(block.size)] ^= 1 << rng.randrange(8)
        said.append("a byte of a block")
    whole = b"".join(parts_of(index, blocks))
    if not rng.randrange(20):
        broken = bytearray(whole)
        broken[rng.randrange(64)] ^= 1 << rng.randrange(8)
        whole = bytes(broken[: rng.choice((len(broken), rng.randrange(len(broken))))])
        said.append("a bit of the header")
    return Mutant(whole, f"{name}: {'; '.join(said)}")
