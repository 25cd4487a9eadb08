# SPDX-License-Identifier: Apache-2.0
"""Layers that the compiler makes of others, on the RTL: results of the reference, and cycles.

Which ones it makes depends on what is faster on a target; here it makes all of them.
"""

import pathlib
import sys
from collections.abc import Callable

import numpy as np
import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "unit" / "opendpu" / "compiler"))
sys.path.append(str(TESTS / "unit" / "opendpu" / "compiler" / "lower"))
sys.path.append(str(TESTS / "unit" / "opendpu" / "compiler" / "network"))

from graph_draws import Quantized  # noqa: E402
from network_draws import replace_pass, share_everything  # noqa: E402
from test_enlarge import graph as focused  # noqa: E402
from test_interleaved import transposed  # noqa: E402
from test_scale import gated  # noqa: E402
from test_shared import with_tables  # noqa: E402
from test_split_channels import bottlenecks, fewer_parts  # noqa: E402

from opendpu.compiler import backend  # noqa: E402
from opendpu.compiler.layers import misc  # noqa: E402
from opendpu.compiler.lower import interleaved  # noqa: E402
from opendpu.compiler.network import enlarge, join_windows  # noqa: E402
from opendpu.compiler.network import scale as scale_pass  # noqa: E402
from opendpu.compiler.network.split_channels import split_channels  # noqa: E402

pytestmark = pytest.mark.cosim

MEMORIES = ("kv260", "stall:5")


@pytest.mark.parametrize("memory", MEMORIES)
def test_products_with_a_pixel(
    memory: str, rng: np.random.Generator, as_reference: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(scale_pass, "pays", lambda *_: True)
    for _ in range(2):
        height, width, channels, point = rng.integers((3, 3, 3, 3), (20, 30, 50, 9)).tolist()
        act = [None, "relu"][int(rng.integers(2))]
        graph = gated((height, width), channels, point=point, act=act)
        as_reference(graph, memory=memory)


@pytest.mark.parametrize("memory", MEMORIES)
def test_enlarged_rows_of_all_phases(
    memory: str, rng: np.random.Generator, as_reference: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(interleaved, "cycles_apart", lambda *_: 1 << 60)
    for _ in range(2):
        channels, stride, rows, columns = rng.integers((1, 2, 3, 3), (14, 5, 9, 12)).tolist()
        kernel = stride + int(rng.integers(0, stride + 2))
        pad = int(rng.integers(0, kernel // 2 + 1))
        as_reference(transposed(channels, kernel, stride, pad, (rows, columns)), memory=memory)


@pytest.mark.parametrize("memory", MEMORIES)
def test_windows_of_a_first_layer_that_are_one_pixel(
    memory: str, rng: np.random.Generator, as_reference: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(join_windows, "waits", lambda *_: True)
    for _ in range(2):
        stride, half, channels, outputs = rng.integers((1, 4, 1, 3), (3, 12, 3, 30)).tolist()
        q = Quantized(int(rng.integers(1 << 30)))
        x = q.data(int(rng.integers(5, 20)), 2 * stride * half, channels)
        as_reference(q.done(q.conv(x, "y", outputs, 3, stride, pad=1)), memory=memory)


@pytest.mark.parametrize("memory", MEMORIES)
def test_columns_of_a_first_layer_in_its_channels(
    memory: str, rng: np.random.Generator, as_reference: Callable[..., None]
) -> None:
    """More bytes a pixel than two words, and kernels of which a pixel has some columns."""
    for channels, kernel, stride in ((3, 7, 2), (8, 9, 1), (5, 14, 2)):
        q = Quantized(int(rng.integers(1 << 30)))
        x = q.data(*rng.integers(14, 20, 2).tolist(), channels)
        pad = int(rng.integers(0, 3))
        as_reference(q.done(q.conv(x, "y", 10, kernel, stride, pad=pad)), memory=memory)


@pytest.mark.parametrize("memory", MEMORIES)
def test_convolutions_of_pixels_in_channels(
    memory: str, rng: np.random.Generator, as_reference: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(enlarge, "copying_cycles", lambda *_: 1 << 60)
    for inside in (False, True):
        rows, columns, channels = rng.integers((4, 4, 1), (9, 9, 5)).tolist()
        as_reference(focused((2 * rows, 2 * columns, channels), inside=inside), memory=memory)


@pytest.mark.parametrize("memory", MEMORIES)
def test_parts_of_channels(
    memory: str, rng: np.random.Generator, as_reference: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(
        backend, "split_channels", lambda n, t, _: split_channels(n, t, fewer_parts)
    )
    rows, columns = rng.integers(6, 12, 2).tolist()
    as_reference(bottlenecks((rows, columns), (8, 4), inputs=8), memory=memory)


@pytest.mark.parametrize("memory", MEMORIES)
def test_layers_with_tables_that_both_engines_share(
    memory: str, rng: np.random.Generator, as_reference: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(backend, "BACKEND_PASSES", replace_pass("balance", share_everything))
    monkeypatch.setattr(misc, "SHORT_PASS", 1)
    graph = with_tables(int(rng.integers(9, 40)), int(rng.choice([3, 5])))
    as_reference(graph, memory=memory, name="B64+table+channel+scaled")
