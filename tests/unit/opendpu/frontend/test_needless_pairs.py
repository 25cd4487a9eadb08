# SPDX-License-Identifier: Apache-2.0
"""Pairs between operators that move data: gone where they round once more to the same integers."""

import numpy as np
import pytest
from quantized_pairs import Pairs, compared

SHAPE = (1, 3, 5, 4)


class Network(Pairs):
    """Layers around a reshape, a tile and a reshape that repeat pixels, with a pair behind each."""

    def moved(self, kind, x, numbers, scale, zero=7) -> str:
        given = self.constant(np.array(numbers, np.int64))
        return self.pair(self.node(kind, x, given), scale, np.int8(zero))

    def conv(self, x) -> str:
        values, scales = self.spread(3, 3, 1, 1)
        weights = self.pair(self.constant(values), scales, np.zeros(3, np.int8), axis=0)
        return self.pair(self.node("Conv", x, weights), 0.04, np.int8(7))

    def made(self, *, tiled=0.04, zero=7, last="pair"):
        x = self.conv(self.pair("x", 0.031, np.uint8(120)))
        wide = self.moved("Reshape", x, [1, 3, 5, 1, 4, 1], 0.04)
        tile = self.moved("Tile", wide, [1, 1, 1, 2, 1, 2], tiled, zero)
        back = self.moved("Reshape", tile, [1, 3, 10, 8], tiled, zero)
        out = self.conv(back)
        if last == "another":
            sizes = self.constant(np.array([1, 3, 10, 8], np.int64))
            again = self.node("Sigmoid", self.node("Reshape", tile, sizes))
            out = self.pair(
                self.node("Add", out, self.pair(again, 0.01, np.int8(-9))), 0.05, np.int8(0)
            )
        return self.model(out, SHAPE)


def test_repeated_pixels_with_pairs_between_are_the_dpus():
    graph, off = compared(Network(seed=3).made())
    kinds = [node.kind for node in graph if node.value is None]
    assert kinds.count("conv2d-fix") == 2
    assert not {"reshape", "tile", "reshape-fix", "onnx"} & set(kinds)
    assert off.max() <= 1
    assert (off > 0).mean() < 0.02


@pytest.mark.parametrize(("tiled", "zero"), [(0.05, 7), (0.04, 6)])
def test_pairs_that_round_to_other_integers_stay(tiled, zero):
    graph, off = compared(Network(seed=3).made(tiled=tiled, zero=zero))
    scales = {node.quantization.scale for node in graph if node.quantization}
    assert (np.float32(tiled),) in scales
    assert off.max() <= 1
    assert (off > 0).mean() < 0.05


def test_pairs_that_something_else_reads_keep_their_results():
    _, off = compared(Network(seed=3).made(last="another"))
    assert off.max() <= 1
    assert (off > 0).mean() < 0.02
