# SPDX-License-Identifier: Apache-2.0
"""Constants that are stored without their zeros, against LiteRT, which makes them dense too."""

import itertools

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed (opendpu[dev])")

from tflite_files import Network, agree, options, schema

from opendpu.frontend.tflite import load_tflite
from opendpu.ir import to_xir
from opendpu_arch.errors import ModelFormatError

DENSE, COMPRESSED = schema.DimensionType.DENSE, schema.DimensionType.SPARSE_CSR
VECTORS = {
    np.int32: (schema.SparseIndexVector.Int32Vector, schema.Int32VectorT),
    np.uint16: (schema.SparseIndexVector.Uint16Vector, schema.Uint16VectorT),
    np.uint8: (schema.SparseIndexVector.Uint8Vector, schema.Uint8VectorT),
}


def pruned(random, *shape, blocks=()):
    """Return numbers of which two thirds are zero, whole blocks of the last axes at a time."""
    array = random.standard_normal(shape).astype(np.float32)
    mask = random.random(shape) < 1 / 3
    for axis, size in blocks:
        mask = np.repeat(np.take(mask, np.arange(0, shape[axis], size), axis), size, axis)
    return array * mask


def stored(array, order, formats, blocks=(), kind=np.int32):
    """Return the elements and the description of a tensor, level by level, as the schema says."""
    rank = array.ndim
    sizes = list(array.shape)
    for axis, size in blocks:
        sizes[axis] //= size
        sizes.append(size)

    def element(places):
        by_axis = dict(zip(order, places, strict=True))
        where = [by_axis[axis] for axis in range(rank)]
        for number, (axis, size) in enumerate(blocks):
            where[axis] = where[axis] * size + by_axis[rank + number]
        return array[tuple(where)]

    def something(prefix):
        rest = [range(sizes[axis]) for axis in order[len(prefix) :]]
        return any(element((*prefix, *more)) for more in itertools.product(*rest))

    prefixes, levels = [()], []
    for axis, form in zip(order, formats, strict=True):
        level = schema.DimensionMetadataT()
        level.format = form
        level.denseSize = sizes[axis] if form == DENSE else 0
        below, segments, indices = [], [0], []
        for prefix in prefixes:
            found = [i for i in range(sizes[axis]) if form == DENSE or something((*prefix, i))]
            below += [(*prefix, i) for i in found]
            indices += found
            segments.append(len(indices))
        if form == COMPRESSED:
            number, vector = VECTORS[kind]
            level.arraySegmentsType = level.arrayIndicesType = number
            level.arraySegments, level.arrayIndices = vector(), vector()
            level.arraySegments.values = np.array(segments, kind)
            level.arrayIndices.values = np.array(indices, kind)
        prefixes = below
        levels.append(level)
    made = schema.SparsityParametersT()
    made.traversalOrder, made.dimMetadata = list(order), levels
    made.blockMap = [axis for axis, _ in blocks]
    return np.array([element(places) for places in prefixes], array.dtype), made


def network(path, array, order, formats, blocks=(), kind=np.int32, dtype=np.float32, spoil=None):
    """Write a convolution whose weights are stored so."""
    net = Network()
    x = net.data("x", (1, 6, 5, array.shape[3]))
    values, sparsity = stored(array, order, formats, blocks, kind)
    if spoil is not None:
        spoil(sparsity)
    net.const("w", values.astype(dtype))
    net.tensors["w"].shape, net.tensors["w"].sparsity = list(array.shape), sparsity
    net.op("DENSIFY", ["w"], ["full"], shape=array.shape, dtype=dtype)
    if dtype != np.float32:
        net.op("DEQUANTIZE", ["full"], ["real"], shape=array.shape)
    bias = net.const("b", np.zeros(array.shape[0], np.float32))
    weights = "full" if dtype == np.float32 else "real"
    net.op("CONV_2D", [x, weights, bias], ["y"],
           options("Conv2D", padding=schema.Padding.SAME, strideH=1, strideW=1),
           shape=(1, 6, 5, array.shape[0]))  # fmt: skip
    return net.write(path, ["y"])


CASES = {
    "last axis": ((0, 1, 2, 3), (DENSE, DENSE, DENSE, COMPRESSED), ()),
    "all axes": ((0, 1, 2, 3), (COMPRESSED,) * 4, ()),
    "last two": ((0, 1, 2, 3), (DENSE, DENSE, COMPRESSED, COMPRESSED), ()),
    "blocks": ((0, 1, 2, 3, 4), (DENSE, DENSE, DENSE, COMPRESSED, DENSE), ((3, 4),)),
    "blocks of two axes":
        ((0, 1, 2, 3, 4, 5), (DENSE, DENSE, DENSE, COMPRESSED, DENSE, DENSE), ((0, 2), (3, 4))),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", [np.int32, np.uint16, np.uint8])
def test_sparse_weights(tmp_path, rng, case, kind):
    order, formats, blocks = CASES[case]
    array = pruned(rng, 4, 3, 2, 8, blocks=blocks)
    path = network(tmp_path / "sparse.tflite", array, order, formats, blocks, kind)
    graph = load_tflite(path)
    to_xir(graph)
    assert [node.kind for node in graph if node.kind not in ("data", "const")] == ["conv2d"]
    (weights,) = graph["y"].inputs["weights"]
    np.testing.assert_array_equal(graph[weights].value, array)
    agree(graph, path, {"x": rng.standard_normal((1, 6, 5, 8)).astype(np.float32)})


def test_sparse_weights_of_half_precision(tmp_path, rng):
    order, formats, blocks = CASES["last axis"]
    array = pruned(rng, 4, 3, 2, 8).astype(np.float16)
    path = network(tmp_path / "half.tflite", array, order, formats, blocks, dtype=np.float16)
    agree(load_tflite(path), path, {"x": rng.standard_normal((1, 6, 5, 8)).astype(np.float32)})


def _levels(sparsity):
    sparsity.dimMetadata = sparsity.dimMetadata[:-1]


def _order(sparsity):
    sparsity.traversalOrder = [0, 0, 2, 3]


def _size(sparsity):
    sparsity.dimMetadata[0].denseSize = 1 << 30


def _index(sparsity):
    sparsity.dimMetadata[3].arrayIndices.values[-1] = 8


def _segments(sparsity):
    sparsity.dimMetadata[3].arraySegments.values[1] = 1 << 20


@pytest.mark.parametrize("spoil", [_levels, _order, _size, _index, _segments])
def test_damaged(tmp_path, rng, spoil):
    order, formats, blocks = CASES["last axis"]
    array = pruned(rng, 4, 3, 2, 8)
    path = network(tmp_path / "bad.tflite", array, order, formats, blocks, spoil=spoil)
    with pytest.raises(ModelFormatError, match=r"bad\.tflite is a damaged TFLite file"):
        load_tflite(path)
