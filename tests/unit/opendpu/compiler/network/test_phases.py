# SPDX-License-Identifier: Apache-2.0
"""Pointwise convolutions behind transposed ones: which read phases, and the same results."""

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check

from opendpu.compiler.kinds import cycles_alone
from opendpu.compiler.legalize import legalize
from opendpu.compiler.lower import lower
from opendpu.compiler.network import Network
from opendpu.compiler.network.phases import read_phases
from opendpu.ir import QuantizedGraph
from opendpu_arch.target import Target

TARGET = Target.from_name("B4096")


def transposed(
    q: Quantized, source: str, name: str, channels: int, kernel: tuple[int, int] = (2, 2),
    stride: tuple[int, int] | None = None, pad: int = 0, point: int = 3, act: str | None = None,
) -> str:  # fmt: skip
    """Add a transposed convolution; its stride is its kernel unless it is given."""
    _, height, width, inputs = q.graph[source].shape
    down, across = stride or kernel
    rows = (height - 1) * down + kernel[0] - 2 * pad
    columns = (width - 1) * across + kernel[1] - 2 * pad
    given = {
        "input": [source],
        "weights": [q.const(f"{name}_w", channels, *kernel, inputs, point=8)],
        "bias": [q.const(f"{name}_b", channels, point=6)],
    }
    values = {"kernel": list(kernel[::-1]), "stride": [across, down], "pad": [pad] * 4,
              "pad_mode": "FLOOR"}  # fmt: skip
    q.graph.add(name, "transposed-conv2d", (1, rows, columns, channels), given, values)
    return q.finish(name, point, act)


def decoder(
    *readers: str, channels: int = 24, results: int = 1, output: bool = False, **first: object
) -> QuantizedGraph:
    """A convolution, a transposed one, and what reads its result."""
    q = Quantized()
    x = q.data(6, 7, 8)
    a = q.conv(x, "a", 16, pad=1)
    whole = transposed(q, a, "t", channels, act="relu", **first)
    ends = []
    for number, kind in enumerate(readers):
        name = f"r{number}"
        match kind:
            case "transposed":
                ends.append(transposed(q, whole, name, results))
            case "wide":
                ends.append(transposed(q, whole, name, results, (3, 4)))
            case "point":
                ends.append(q.conv(whole, name, results, kernel=1, act="relu"))
            case "window":
                ends.append(q.conv(whole, name, results, kernel=3, pad=1))
            case "pool":
                ends.append(q.pool(whole, name, "maxpool2d", 2, stride=2))
    return q.done(*ends, *[whole] * output)


def networks(graph: QuantizedGraph) -> tuple[Network, Network]:
    """Return the network of a graph before and after the pass."""
    fixed = legalize(graph)
    names = [n.name for n in fixed if "input" in n.inputs]
    before = lower(fixed, names, set(fixed.outputs), TARGET, cycles_alone)
    return before, read_phases(before, TARGET)


def is_assembled(network: Network) -> bool:
    """Tell whether the transposed convolution's result is a feature map as a whole."""
    return any(layer.operands and layer.operands[0] == "t" for layer in network.layers)


def test_each_phase_is_read_on_its_own() -> None:
    before, after = networks(decoder("transposed"))
    assert is_assembled(before) and not is_assembled(after)
    assert "t" not in after.features
    readers = [layer for layer in after.layers if layer.op == "r0"]
    assert [layer.source for layer in readers] == ["t/0_0", "t/1_0", "t/0_0", "t/1_0"]
    old = {layer.name: layer for layer in before.layers}
    for layer, name in zip(readers, ["r0/0_0"] * 2 + ["r0/1_0"] * 2, strict=True):
        weights = layer.weights.reshape(2, 2, 2, 24)
        for pixel in range(2):
            np.testing.assert_array_equal(weights[pixel, :, pixel], old[name].weights[:, 0, 0])
            assert not weights[pixel, :, 1 - pixel].any()
    places = {layer.output: after.aliases[layer.output] for layer in readers}
    row = 28
    assert [(p.holder, p.offset, p.pixel_bytes, p.row_bytes) for p in places.values()] == [
        ("r0", 0, 4, 4 * row), ("r0", 2 * row, 4, 4 * row),
        ("r0", row, 4, 4 * row), ("r0", 3 * row, 4, 4 * row),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (decoder("window"), "its pixels meet others"),
        (decoder("pool"), "only convolutions are made for phases"),
        (decoder("point", output=True), "the user wants the whole"),
        (decoder("point", "window"), "one reader needs the whole"),
        (decoder("point", channels=32, results=32), "zeros would take the array longer"),
        (decoder("point", kernel=(3, 3), stride=(2, 2)), "phases of columns are apart"),
    ],
)
def test_where_the_whole_is_read(graph: QuantizedGraph, why: str) -> None:
    assert is_assembled(networks(graph)[1]), why


@pytest.mark.parametrize("target", ["B64", "B512", "B4096"])
@pytest.mark.parametrize(
    "graph",
    [
        decoder("transposed"),
        decoder("transposed", results=3),
        decoder("point", results=2),
        decoder("point", "transposed", channels=8),
        decoder("wide", channels=12),
        decoder("transposed", channels=5, kernel=(3, 2)),
        decoder("point", channels=3, kernel=(1, 4), results=5),
        decoder("transposed", kernel=(4, 4), stride=(2, 2), pad=1),
    ],
)
def test_results(graph: QuantizedGraph, target: str) -> None:
    compile_and_check(graph, target, runs=1)


def test_three_in_a_row() -> None:
    """A phase of a phase: what the second one fills is no map with bytes of its own."""
    q = Quantized()
    x = q.data(5, 6, 8)
    a = transposed(q, x, "a", 6)
    b = transposed(q, a, "b", 4)
    compile_and_check(q.done(transposed(q, b, "c", 1)), "B4096", runs=1)
