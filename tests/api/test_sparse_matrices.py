"""Sparse matrices as weights: those of SciPy, those of PyTorch, and hostile ones."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest

import pplconv
from pplconv.memory.array_like import bfloat16_dtype
from pplconv.ops.sparse.sparse_matrices import weight_array
from tests.api.test_arrays import DLPackOnly
from tests.brain_exporter import Exporter

scipy_sparse = pytest.importorskip("scipy.sparse")
HAS_TORCH = importlib.util.find_spec("torch") is not None


def matrix(rng, rows=12, columns=54, dtype="float32"):
    drawn = rng.standard_normal((rows, columns)).astype(dtype)
    drawn[rng.random((rows, columns)) < 0.7] = 0
    return drawn


# Formats of SciPy --------------------------------------------------------------------------------

FORMATS = {
    "csr": {}, "csc": {}, "coo": {}, "bsr": {"blocksize": (4, 3)},
    "bsr of rows": {"blocksize": (1, 6)},
}  # fmt: skip


def as_format(dense, name, array=True):
    kind = name.split()[0]
    classes = {
        "csr": ("csr_array", "csr_matrix"), "csc": ("csc_array", "csc_matrix"),
        "coo": ("coo_array", "coo_matrix"), "bsr": ("bsr_array", "bsr_matrix"),
    }  # fmt: skip
    return getattr(scipy_sparse, classes[kind][not array])(dense, **FORMATS[name])


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("array", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_formats(name, array, dtype, rng):
    dense = matrix(rng, dtype=dtype)
    sparse = as_format(dense, name, array)
    np.testing.assert_array_equal(weight_array(sparse)[:, :, 0, 0], dense)
    shape = (12, 6, 3, 3)
    found = weight_array(sparse, shape)
    np.testing.assert_array_equal(found, dense.reshape(shape))
    assert found.dtype == dense.dtype and found.flags.c_contiguous
    np.testing.assert_array_equal(weight_array(sparse, dimensions=2), dense)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint8, np.uint64, ">i4"])
def test_indices_of_any_integers(name, kind, rng):
    dense = matrix(rng)
    sparse = as_format(dense, name)
    shown = {"format": sparse.format, "shape": sparse.shape, "data": sparse.data, "tocsr": None}
    for index in ("indptr", "indices", "row", "col"):
        if hasattr(sparse, index):
            shown[index] = getattr(sparse, index).astype(kind)
    np.testing.assert_array_equal(weight_array(SimpleNamespace(**shown), dimensions=2), dense)


def test_layers_of_matrices(rng):
    dense = matrix(rng)
    x = rng.standard_normal((2, 6, 9, 8)).astype(np.float32)
    shape = (12, 6, 3, 3)
    layer = pplconv.Conv2d(scipy_sparse.csr_array(dense), padding=1, weight_shape=shape)
    same = pplconv.Conv2d(dense.reshape(shape), padding=1)
    assert layer(x).tobytes() == same(x).tobytes()
    assert layer.weight_shape == shape and layer.sparse == "auto"
    assert repr(layer) == repr(same)
    assert layer.plan_for(x.shape) == same.plan_for(x.shape)
    assert layer.plan_for(x.shape).sparsity.block == 1
    flat = pplconv.Linear(scipy_sparse.bsr_array(dense, blocksize=(4, 1)))
    rows = rng.standard_normal((5, 54)).astype(np.float32)
    assert flat(rows).tobytes() == pplconv.Linear(dense)(rows).tobytes()
    whole = np.rint(4 * dense).astype(np.int8)
    exact = pplconv.QConv2d(scipy_sparse.coo_array(whole), out_dtype="int32", weight_shape=shape)
    q = rng.integers(0, 255, (1, 6, 5, 5), np.uint8)
    same = pplconv.QConv2d(whole.reshape(shape), out_dtype="int32")
    assert exact(q).tobytes() == same(q).tobytes()


def test_groups_of_a_matrix(rng):
    dense = matrix(rng, 12, 27)
    shape = (12, 3, 3, 3)
    layer = pplconv.Conv2d(scipy_sparse.csr_array(dense), groups=2, weight_shape=shape)
    x = rng.standard_normal((1, 6, 7, 7)).astype(np.float32)
    assert layer(x).tobytes() == pplconv.Conv2d(dense.reshape(shape), groups=2)(x).tobytes()


def test_special_numbers_are_weights(rng):
    dense = matrix(rng)
    dense[3, 5], dense[4, 6], dense[7, 8] = np.nan, np.inf, -0.0
    found = weight_array(scipy_sparse.coo_array(dense), dimensions=2)
    np.testing.assert_array_equal(found, dense)


def coordinates(row, col, data, shape=(4, 5), **others):
    return SimpleNamespace(
        format="coo", tocsr=None, shape=shape, row=np.array(row), col=np.array(col),
        data=np.array(data, np.float32), **others,
    )  # fmt: skip


def test_entries_that_are_there_twice_are_added_up(rng):
    sparse = coordinates([3, 0, 3, 3], [4, 0, 4, 4], [0.5, 1, 0.25, -2])
    found = weight_array(sparse, dimensions=2)
    expected = scipy_sparse.coo_array((sparse.data, (sparse.row, sparse.col)), (4, 5)).toarray()
    np.testing.assert_array_equal(found, expected)
    # In any order, and rounded once: 1 + 2**-30 - 1.
    sparse = coordinates([0, 0, 0], [1, 1, 1], [1, 2.0**-30, -1])
    assert weight_array(sparse, dimensions=2)[0, 1] == np.float32(2.0**-30)
    twice = scipy_sparse.csr_array(
        (np.float64([1, 2, 3, 4]), np.array([2, 0, 2, 1]), np.array([0, 3, 3, 4])), (3, 4)
    )
    np.testing.assert_array_equal(weight_array(twice, dimensions=2), twice.toarray())
    opposite = coordinates([0, 0, 1, 1], [0, 0, 1, 1], [np.inf, -np.inf, np.nan, 1])
    found = weight_array(opposite, dimensions=2)
    assert np.isnan(found[0, 0]) and np.isnan(found[1, 1]) and np.isnan(found).sum() == 2


def test_integers_that_add_up_to_more_than_their_type_holds():
    sparse = SimpleNamespace(
        format="coo", tocsr=None, shape=(2, 2), row=np.array([0, 0]), col=np.array([1, 1]),
        data=np.array([100, 27], np.int8),
    )  # fmt: skip
    assert weight_array(sparse, dimensions=2)[0, 1] == 127
    sparse.data = np.array([100, 28], np.int8)
    with pytest.raises(ValueError, match=r"\bweight\b.*int8"):
        weight_array(sparse, dimensions=2)


def test_what_lies_behind_the_last_row_is_no_entry(rng):
    """SciPy's own matrices may have such room."""
    dense = matrix(rng)
    sparse = scipy_sparse.csr_array(dense)
    roomy = SimpleNamespace(
        format="csr", tocsr=None, shape=sparse.shape, indptr=sparse.indptr,
        indices=np.append(sparse.indices, [10**6, -5]), data=np.append(sparse.data, [1, 2]),
    )  # fmt: skip
    np.testing.assert_array_equal(weight_array(roomy, dimensions=2), dense)


def test_an_empty_matrix_is_of_zeros():
    layer = pplconv.Conv2d(scipy_sparse.csr_array((8, 27), dtype=np.float32),
                           weight_shape=(8, 3, 3, 3))  # fmt: skip
    x = np.full((1, 3, 6, 6), np.inf, np.float32)
    assert not pplconv.Conv2d(layer.weight, np.zeros(8, np.float32), sparse=True)(x).any()
    assert not layer.weight.any()


# Hostile ones ------------------------------------------------------------------------------------

HUGE = 2**62


def rows(indptr=(0, 2, 2, 3, 4), indices=(1, 3, 0, 4), data=(1.0, 2.0, 3.0, 4.0), shape=(4, 5),
         **others):  # fmt: skip
    return SimpleNamespace(
        format=others.pop("format", "csr"), tocsr=None, shape=shape, indptr=np.array(indptr),
        indices=np.array(indices), data=np.array(data), **others,
    )  # fmt: skip


def without(name):
    sparse = rows()
    delattr(sparse, name)
    return sparse


HOSTILE = {
    "a negative index": lambda: rows(indices=(1, -1, 0, 4)),
    "an index beyond the columns": lambda: rows(indices=(1, 5, 0, 4)),
    "a huge index": lambda: rows(indices=(1, HUGE, 0, 4)),
    "an index that wraps": lambda: rows(indices=np.array([1, 2**64 - 1, 0, 4], np.uint64)),
    "rows that do not rise": lambda: rows(indptr=(0, 3, 2, 3, 4)),
    "rows that begin late": lambda: rows(indptr=(1, 2, 2, 3, 4)),
    "rows that begin before": lambda: rows(indptr=(-1, 2, 2, 3, 4)),
    "rows beyond the entries": lambda: rows(indptr=(0, 2, 2, 3, 5)),
    "rows of huge ends": lambda: rows(indptr=(0, 2, 2, 3, HUGE)),
    "rows that wrap": lambda: rows(indptr=np.array([0, 2, 2**64 - 1, 3, 4], np.uint64)),
    "too few rows": lambda: rows(indptr=(0, 2, 2, 4)),
    "too many rows": lambda: rows(indptr=(0, 2, 2, 3, 4, 4)),
    "no rows": lambda: rows(indptr=np.zeros(0, np.int64)),
    "fewer indices than values": lambda: rows(indices=(1, 3, 0)),
    "fewer values than indices": lambda: rows(data=(1.0, 2.0, 3.0)),
    "columns for rows": lambda: rows(format="csc"),
    "indices of two dimensions": lambda: rows(indices=((1, 3), (0, 4))),
    "rows of two dimensions": lambda: rows(indptr=((0, 2, 2, 3, 4),)),
    "values of two dimensions": lambda: rows(data=((1.0, 2.0), (3.0, 4.0))),
    "a shape of one dimension": lambda: rows(shape=(20,)),
    "a shape of three": lambda: rows(shape=(4, 5, 1)),
    "an empty shape": lambda: rows(shape=(0, 5)),
    "a negative shape": lambda: rows(shape=(4, -5)),
    "a shape beyond all memory": lambda: rows(shape=(4, HUGE)),
    "blocks that do not divide": lambda: rows(data=np.ones((4, 3, 2)), format="bsr"),
    "blocks of nothing": lambda: rows(data=np.ones((4, 0, 1)), format="bsr"),
    "coordinates beyond the rows": lambda: coordinates([0, 4], [0, 1], [1, 2]),
    "coordinates before the columns": lambda: coordinates([0, 1], [0, -1], [1, 2]),
    "fewer coordinates than values": lambda: coordinates([0], [0], [1, 2]),
    "more coordinates than values": lambda: coordinates([0, 1, 2], [0, 1, 2], [1, 2]),
    "coordinates of unequal length": lambda: coordinates([0, 1], [0], [1, 2]),
}
MISTYPED = {
    "indices that are no integers": lambda: rows(indices=(1.0, 3.0, 0.0, 4.0)),
    "indices that are truths": lambda: rows(indices=(True, False, True, True)),
    "rows that are no integers": lambda: rows(indptr=(0.0, 2.0, 2.0, 3.0, 4.0)),
    "indices that are objects": lambda: rows(indices=np.array([1, 3, 0, None], object)),
    "values that are complex": lambda: rows(data=(1j, 2, 3, 4)),
    "values that are texts": lambda: rows(data=("a", "b", "c", "d")),
    "values that are truths": lambda: rows(data=(True, True, True, True)),
    "a shape that is no integers": lambda: rows(shape=(4, 5.0)),
    "no indices": lambda: without("indices"),
    "no values": lambda: without("data"),
    "no shape": lambda: without("shape"),
    "rows in lists": lambda: SimpleNamespace(
        format="lil", tocsr=None, shape=(4, 5), rows=[], data=[]
    ),
    "diagonals": lambda: scipy_sparse.dia_array(np.ones((4, 5), np.float32)),
    "keys": lambda: scipy_sparse.dok_array(np.ones((4, 5), np.float32)),
}  # fmt: skip


@pytest.mark.parametrize("what", [*HOSTILE, *MISTYPED])
def test_hostile_matrices_are_refused_by_name(what):
    make = (HOSTILE | MISTYPED)[what]
    error = ValueError if what in HOSTILE else TypeError
    with pytest.raises(error, match=r"\bweight\b"):
        pplconv.Conv2d(make())
    with pytest.raises(error, match=r"\bweight\b"):
        pplconv.Linear(make())


def test_the_way_out_is_named():
    with pytest.raises(TypeError, match=r"'dia'.*tocsr"):
        pplconv.Conv2d(scipy_sparse.dia_array(np.ones((4, 5), np.float32)))
    with pytest.raises(TypeError, match=r"int64"):
        pplconv.Conv2d(scipy_sparse.csr_array(np.ones((4, 5), np.int64)))


def test_huge_but_possible_shapes_take_no_memory():
    with pytest.raises((MemoryError, ValueError)):
        pplconv.Conv2d(rows(shape=(4, 2**55)))


def test_random_damage_is_refused_or_harmless(rng):
    """Whatever stands in the three arrays, it is an error that names the argument, or a matrix."""
    refused = 0
    good = scipy_sparse.csr_array(matrix(rng, 8, 20))
    for _ in range(3000):
        sparse = rows(good.indptr.copy(), good.indices.copy(), good.data.copy(), good.shape)
        for _ in range(rng.integers(1, 4)):
            name = ("indptr", "indices", "data")[rng.integers(3)]
            array = getattr(sparse, name)
            if rng.random() < 0.3:
                setattr(sparse, name, array[: rng.integers(len(array) + 1)])
            elif name != "data" and len(array):
                array[rng.integers(len(array))] = rng.integers(-30, 200)
        try:
            found = weight_array(sparse, dimensions=2)
        except ValueError as error:
            assert "weight" in str(error)
            refused += 1
        else:
            assert found.shape == good.shape
    assert 1000 < refused < 3000


# Shapes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "error"),
    [
        ((12, 6, 3), ValueError), ((12, 6, 3, 4), ValueError), ((6, 12, 3, 3), ValueError),
        ((12, 6, 3, -3), ValueError), ((12, 6, 0, 3), ValueError), ((12.0, 6, 3, 3), TypeError),
        (54, TypeError), ("12633", TypeError),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit(shape, error, rng):
    for weight in (scipy_sparse.csr_array(matrix(rng)), matrix(rng).reshape(12, 6, 3, 3)):
        with pytest.raises(error, match=r"\bweight_shape\b"):
            pplconv.Conv2d(weight, weight_shape=shape)


def test_arrays_may_have_their_shape_said(rng):
    dense = matrix(rng).reshape(12, 6, 3, 3)
    again = pplconv.Conv2d(dense, weight_shape=[12, 6, np.int64(3), 3])
    np.testing.assert_array_equal(again.weight, dense)
    with pytest.raises(ValueError, match=r"\bweight\b.*4 dimensions"):
        pplconv.Conv2d(dense.reshape(12, 54))  # no sparse matrix


# Tensors of PyTorch ------------------------------------------------------------------------------


class Tensor:
    """What a sparse tensor shows of itself; its parts are arrays, or tensors of another kind."""

    requires_grad = False

    def __init__(self, layout, shape, wrap=np.asarray, **parts):
        self.layout, self.shape = f"torch.sparse_{layout}", shape
        for name, value in parts.items():
            setattr(self, name, lambda value=value: value if value is True else wrap(value))

    def to_dense(self):
        raise AssertionError("it is read as it is")


def tensors(dense, wrap=np.asarray):
    csr, csc = scipy_sparse.csr_array(dense), scipy_sparse.csc_array(dense)
    bsr, coo = scipy_sparse.bsr_array(dense, blocksize=(4, 3)), scipy_sparse.coo_array(dense)
    yield Tensor("csr", dense.shape, wrap, crow_indices=csr.indptr, col_indices=csr.indices,
                 values=csr.data)  # fmt: skip
    yield Tensor("csc", dense.shape, wrap, ccol_indices=csc.indptr, row_indices=csc.indices,
                 values=csc.data)  # fmt: skip
    yield Tensor("bsr", dense.shape, wrap, crow_indices=bsr.indptr, col_indices=bsr.indices,
                 values=bsr.data)  # fmt: skip
    yield Tensor("coo", dense.shape, wrap, is_coalesced=True, indices=np.stack([coo.row, coo.col]),
                 values=coo.data)  # fmt: skip


@pytest.mark.parametrize("wrap", [np.asarray, DLPackOnly])
def test_tensors(wrap, rng):
    dense = matrix(rng)
    for tensor in tensors(dense, wrap):
        np.testing.assert_array_equal(weight_array(tensor, dimensions=2), dense)
        found = weight_array(tensor, (12, 6, 3, 3))
        np.testing.assert_array_equal(found, dense.reshape(12, 6, 3, 3))


def test_coordinates_of_four_dimensions(rng):
    dense = matrix(rng).reshape(12, 6, 3, 3)
    tensor = Tensor("coo", dense.shape, is_coalesced=True, indices=np.array(np.nonzero(dense)),
                    values=dense[np.nonzero(dense)])  # fmt: skip
    np.testing.assert_array_equal(pplconv.Conv2d(tensor).weight, dense)
    tensor.shape = (12, 6, 3, 2)
    with pytest.raises(ValueError, match=r"\bweight\b"):
        pplconv.Conv2d(tensor)


def test_tensors_that_contradict_themselves(rng):
    good = np.zeros((2, 3), np.int64)
    for parts in (
        {"indices": good[0], "values": np.ones(3, np.float32)},
        {"indices": good[:, :2], "values": np.ones(3, np.float32)},
        {"indices": np.zeros((3, 3), np.int64), "values": np.ones(3, np.float32)},
        {"indices": good + 4, "values": np.ones(3, np.float32)},
        {"indices": good, "values": np.ones((3, 2), np.float32)},
    ):
        with pytest.raises(ValueError, match=r"\bweight\b"):
            pplconv.Conv2d(Tensor("coo", (4, 5), is_coalesced=True, **parts))
    with pytest.raises(TypeError, match=r"sparse_csr.*col_indices.*to_dense"):
        pplconv.Conv2d(Tensor("csr", (4, 5), crow_indices=np.zeros(5, np.int64)))
    with pytest.raises(TypeError, match=r"sparse_mkl.*to_dense"):
        pplconv.Conv2d(Tensor("mkl", (4, 5)))


def test_weights_of_bfloat16(rng):
    dtype = bfloat16_dtype()
    if dtype is None:
        pytest.skip("no ml_dtypes")
    dense = matrix(rng).astype(dtype)
    at = np.nonzero(dense.view(np.uint16) << 1)
    sparse = coordinates(*at, np.zeros(len(at[0])), shape=dense.shape)
    sparse.data = Exporter(dense[at].view(np.uint16))
    found = weight_array(sparse, dimensions=2)
    assert found.dtype == dtype and found.tobytes() == dense.tobytes()


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.skipif(not HAS_TORCH, reason="no PyTorch")
def test_tensors_of_pytorch(rng):
    import torch

    dense = matrix(rng)
    tensor = torch.from_numpy(dense)
    made = [
        tensor.to_sparse_csr(), tensor.to_sparse_csc(), tensor.to_sparse_bsr((4, 3)),
        tensor.to_sparse(), tensor.to_sparse_csr().requires_grad_(),
        torch.sparse_coo_tensor([[0, 0], [1, 1]], [0.5, 0.25], (2, 2)),
    ]  # fmt: skip
    for sparse in made:
        expected = sparse.detach().to_dense().numpy()
        np.testing.assert_array_equal(weight_array(sparse, dimensions=2), expected)
    images = tensor.reshape(12, 6, 3, 3).to_sparse()
    np.testing.assert_array_equal(pplconv.Conv2d(images).weight, dense.reshape(12, 6, 3, 3))
