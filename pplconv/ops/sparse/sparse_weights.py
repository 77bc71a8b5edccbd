"""How sparse weights are: ``sparse=`` and ``block=``, checked, and zeros counted in blocks.

Loops may leave out weights that are zero. Those of neighbouring output channels lie in one vector
or share one broadcast pixel, so that a block of them is left out only as a whole: the
number that counts is of weights that blocks store, not of weights that differ from zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._checks import shown
from ...sparsity import BLOCKS, WITHOUT_ZEROS, Sparsity, checked_block

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SparseWeights", "checked_sparse", "is_depthwise", "sparsity_of", "stored_weights"]

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]
Pair = tuple[int, int]

# With fewer zeros than this share no loop gains by leaving them out.
LEAST_ZEROS = 0.1
# Weights that natural blocks may store, as a multiple of those that are not zero.
NATURAL = 1.05

# Weights looked at together.
_PIECE = 1 << 16
# Of larger weights this many, spread over all, are looked at first, to recognize dense ones.
# Weights are dense if the sample has less than a fourth of `LEAST_ZEROS` zeros: chance hardly
# hides sparse ones.
_SAMPLE = 1 << 14
_SAMPLED_ZEROS = LEAST_ZEROS / 4


def checked_sparse(
    sparse: object, block: object, algorithm: object = "auto"
) -> tuple[bool | str, Pair | None, object]:
    """Check ``sparse=`` and ``block=`` beside ``algorithm=``, which may say the same.

    Parameters
    ----------
    sparse : {"auto", True, False}
        Whether zeros may be left out; True: they are.
    block : (1, N) or None
        N output channels are left out together; None: what fits the weights.
    algorithm : object
        ``"sparse"`` alone counts as `sparse`, and `sparse` as ``"sparse"``.

    Returns
    -------
    sparse : bool or str
    block : (int, int) or None
    algorithm : object
        For the planner, which checks what it is.

    Raises
    ------
    TypeError, ValueError
        If one is not as described, or they contradict one another; the message names them.
    """
    if isinstance(sparse, np.bool_):
        sparse = bool(sparse)
    if not isinstance(sparse, bool) and not (isinstance(sparse, str) and sparse == "auto"):
        kind = ValueError if isinstance(sparse, str) else TypeError
        raise kind(f'sparse must be "auto", True or False, got {shown(sparse)}')
    pair = None if block is None else checked_block(block)
    named = algorithm if isinstance(algorithm, str) else ""
    if sparse is False and pair is not None:
        raise ValueError(f"block must be None with sparse=False, got {pair}")
    if sparse is False and named == WITHOUT_ZEROS:
        raise ValueError('algorithm="sparse" contradicts sparse=False')
    if named == WITHOUT_ZEROS:
        return True, pair, algorithm
    if sparse is True:
        if named != "auto":
            raise ValueError(f'algorithm must be "auto" with sparse=True, got {shown(algorithm)}')
        algorithm = WITHOUT_ZEROS
    return sparse, pair, algorithm


def is_depthwise(shape: tuple[int, ...], groups: int) -> bool:
    """Whether weights (oc, ic / groups, ...) have one input channel for each of many groups."""
    return shape[1] == 1 < groups


class SparseWeights:
    """How sparse a layer's weights are, counted when a first plan asks.

    Parameters
    ----------
    weight : ndarray, shape (oc, ic / groups, ...)
        Weights; replaced by the layer's copy before the first plan.
    groups : int
        Groups of channels.
    sparse, block
        As `checked_sparse` gives them.

    Raises
    ------
    ValueError
        If zeros are to be left out of a depthwise convolution.
    """

    __slots__ = ("_counted", "_sparsity", "block", "groups", "sparse", "weight")

    def __init__(self, weight: Array, groups: int, sparse: bool | str, block: Pair | None) -> None:
        if sparse is True and is_depthwise(weight.shape, groups):
            raise ValueError(
                "sparse must not be True where each group has one input channel: depthwise "
                f"convolution is dense, got weight of shape {weight.shape} in {groups} groups"
            )
        self.weight, self.groups = weight, groups
        self.sparse, self.block = sparse, block
        self._counted = False
        self._sparsity: Sparsity | None = None

    @property
    def sparsity(self) -> Sparsity | None:
        """What the problem says of them."""
        if not self._counted:
            block = None if self.block is None else self.block[1]
            self._sparsity = sparsity_of(self.weight, self.groups, self.sparse, block)
            self._counted = True
        return self._sparsity

    def problem(self, make: Callable[..., Any], shape: tuple[int, ...]) -> Any:
        """Have `make` describe the problem for inputs of a shape, with what is known of zeros."""
        return make(shape, sparsity=self.sparsity)


def sparsity_of(
    weight: Array, groups: int, sparse: bool | str, block: int | None = None
) -> Sparsity | None:
    """Say how sparse weights are, as far as that is of interest.

    Negative zeros are zeros; NaN and infinities are weights.

    Parameters
    ----------
    weight : ndarray, shape (oc, ic / groups, ...)
        Weights of any type, zero points taken away.
    groups : int
        Groups of channels, which blocks do not cross.
    sparse : {"auto", True, False}
        False: not of interest. ``"auto"``: where a tenth of them or more are zeros, and the
        convolution is not depthwise. True: however many there are.
    block : int, optional
        Output channels of a block, one of `BLOCKS`. None: the widest whose blocks store next to no
        zeros, so that 1 stands for weights without blocks.

    Returns
    -------
    Sparsity or None
        None: problems of such weights are those of dense ones.
    """
    if sparse is False or not weight.size:
        return None
    if sparse == "auto" and (is_depthwise(weight.shape, groups) or _looks_dense(weight)):
        return None
    if sparse == "auto":
        # Most weights are dense, and need no count of blocks.
        there = stored_weights(weight, groups, (1,))[1]
        if weight.size - there < LEAST_ZEROS * weight.size:
            return None
    widths = [width for width in BLOCKS if width <= weight.shape[0] // groups]
    counts = stored_weights(weight, groups, widths if block is None else {1, block})
    there = counts[1]
    if block is None:
        block = max(width for width in widths if counts[width] <= NATURAL * there)
    return Sparsity.of(block, counts[block], weight.size)


def stored_weights(weight: Array, groups: int, blocks: Iterable[int]) -> dict[int, int]:
    """Count the weights that are stored if whole blocks of zeros are left out.

    Parameters
    ----------
    weight : ndarray, shape (oc, ic / groups, ...)
        Weights.
    groups : int
        Groups of channels.
    blocks : iterable of int
        Output channels of a block. Channels beyond a group's whole blocks count one by one.

    Returns
    -------
    dict of int to int
        For each of `blocks`.
    """
    counts = dict.fromkeys(blocks, 0)
    for piece in _pieces(weight.reshape(groups, weight.shape[0] // groups, -1)):
        there = _differs_from_zero(piece)
        for block in counts:
            counts[block] += _stored(there, block)
    return counts


def _stored(there: NDArray[np.bool_], block: int) -> int:
    """Weights that blocks of some groups store, (groups, output channels, k)."""
    groups, channels, k = there.shape
    blocks = channels // block
    whole = there[:, : blocks * block].reshape(groups, blocks, block, k)
    rest = there[:, blocks * block :]
    stored = block * np.count_nonzero(whole.any(2) if block > 1 else whole)
    return int(stored + np.count_nonzero(rest))


def _pieces(weight: Array) -> Iterator[Array]:
    """Parts of (groups, output channels, k) that hold whole blocks of each width."""
    groups, channels, k = weight.shape
    if channels * k <= _PIECE:
        some = max(1, _PIECE // (channels * k))
        for first in range(0, groups, some):
            yield weight[first : first + some]
        return
    widest = max(BLOCKS)
    columns = min(k, _PIECE // widest)
    rows = max(_PIECE // columns // widest, 1) * widest
    for group in range(groups):
        for row in range(0, channels, rows):
            for column in range(0, k, columns):
                yield weight[group : group + 1, row : row + rows, column : column + columns]


def _looks_dense(weight: Array) -> bool:
    """Whether hardly any weight of a sample, spread over all weights, is zero."""
    step = weight.size // _SAMPLE
    if step < 4:
        return False
    # An odd step meets all places of rows whose length is a power of two.
    sample = weight.ravel(order="K")[:: step | 1]
    zeros = sample.size - np.count_nonzero(_differs_from_zero(sample))
    return bool(zeros < _SAMPLED_ZEROS * sample.size)


def _differs_from_zero(weight: Array) -> NDArray[np.bool_]:
    """Which weights are there. Halves are compared by their bits: NumPy converts each of them."""
    dtype = weight.dtype
    if dtype.itemsize == 2 and dtype.kind not in "iu" and dtype.isnative:
        weight = weight.view(np.uint16) << 1
    with np.errstate(invalid="ignore"):
        found: NDArray[np.bool_] = np.not_equal(weight, 0)
    return found
