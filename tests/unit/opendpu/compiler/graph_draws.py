# SPDX-License-Identifier: Apache-2.0
"""Small quantized graphs in the form of the quantizer, and runs of their compiled form."""

from collections.abc import Sequence

import numpy as np
from oracle import evaluate_quantized

import xir
from opendpu.compiler.pipeline import Compiled, compile_with_report
from opendpu.ir import Quantization, QuantizedGraph, to_xir
from opendpu.runtime import GraphRunner
from opendpu_arch.target import Target


class Quantized:
    """A quantized graph in the making: a ``fix`` follows every op and stands for its result."""

    def __init__(self, seed: int = 1) -> None:
        self.graph = QuantizedGraph("test")
        self.random = np.random.default_rng(seed)

    def fix(self, name: str, point: int, bit_width: int = 8) -> str:
        quantization = Quantization.power_of_two(point, bits=bit_width)
        return self.graph.add_fix(f"{name}_fix", name, quantization).name

    def data(self, *shape: int, name: str = "x", point: int = 5) -> str:
        self.graph.add(name, "data", (1, *shape))
        return self.fix(name, point)

    def const(self, name: str, *shape: int, point: int | Sequence[int] = 7, axis: int = 0) -> str:
        """Add a constant; ``point`` may be one for each index along ``axis``."""
        values = self.random.integers(-128, 128, shape)
        if isinstance(point, int):
            value = values * 2.0**-point
            self.graph.add(name, "const", shape, value=value.astype(np.float32))
            return self.fix(name, point)
        axis %= len(shape)
        scale = 2.0 ** -np.reshape(point, [-1 if n == axis else 1 for n in range(len(shape))])
        self.graph.add(name, "const", shape, value=(values * scale).astype(np.float32))
        quantization = Quantization.powers_of_two(point, axis)
        return self.graph.add_fix(f"{name}_fix", name, quantization).name

    def op(self, name: str, kind: str, size: tuple, sources: list[str], **attrs) -> str:
        return self.graph.add(name, kind, (1, *size), {"input": sources}, attrs).name

    def window(
        self, source: str, kind: str, channels: int, kernel: int, stride: int, pad: int, **attrs
    ) -> tuple[tuple, dict]:
        _, height, width, _ = self.graph[source].shape
        reach = (kernel - 1) * attrs.get("dilation", [1, 1])[0] + 1
        rows = (height + 2 * pad - reach) // stride + 1
        columns = (width + 2 * pad - reach) // stride + 1
        values = {
            "kernel": [kernel] * 2, "stride": [stride] * 2, "pad": [pad] * 4, "pad_mode": "FLOOR",
            **attrs,
        }  # fmt: skip
        return (rows, columns, channels), values

    def conv(
        self, source: str, name: str, channels: int, kernel: int = 3, stride: int = 1,
        pad: int = 0, point: int = 4, act: str | None = None, kind: str = "conv2d", **attrs,
    ) -> str:  # fmt: skip
        inputs = self.graph[source].shape[-1]
        channels = channels if kind == "conv2d" else inputs
        shape, values = self.window(source, kind, channels, kernel, stride, pad, **attrs)
        weights = (channels, kernel, kernel, inputs) if kind == "conv2d" else (
            1, kernel, kernel, inputs
        )  # fmt: skip
        given = {
            "input": [source],
            "weights": [self.const(f"{name}_w", *weights, point=8)],
            "bias": [self.const(f"{name}_b", channels, point=6)],
        }
        self.graph.add(name, kind, (1, *shape), given, values)
        return self.finish(name, point, act)

    def finish(self, name: str, point: int, act: str | None = None, **attrs) -> str:
        if act is not None:
            shape = self.graph[name].shape
            name = self.graph.add(f"{name}_{act}", act, shape, {"input": [name]}, attrs).name
        return self.fix(name, point)

    def pool(
        self, source: str, name: str, kind: str, kernel: int, stride: int = 1, pad: int = 0,
        point: int = 5, **attrs,
    ) -> str:  # fmt: skip
        channels = self.graph[source].shape[-1]
        shape, values = self.window(source, kind, channels, kernel, stride, pad, **attrs)
        self.op(name, kind, shape, [source], **values)
        return self.fix(name, point)

    def add(self, sources: list[str], name: str, point: int = 4, act: str | None = None) -> str:
        self.op(name, "add", self.graph[sources[0]].shape[1:], sources)
        return self.finish(name, point, act)

    def dense(self, source: str, name: str, outputs: int, point: int = 3) -> str:
        inputs = self.graph[source].shape[-1]
        given = {
            "input": [source],
            "weights": [self.const(f"{name}_w", outputs, inputs, point=8)],
            "bias": [self.const(f"{name}_b", outputs, point=6)],
        }
        self.graph.add(name, "inner-product", (1, outputs), given, {"axis": 1})
        return self.fix(name, point)

    def reshape(self, source: str, name: str, *shape: int, point: int = 5) -> str:
        self.op(name, "reshape", shape, [source], shape=[1, *shape])
        return self.fix(name, point)

    def done(self, *outputs: str) -> QuantizedGraph:
        self.graph.outputs = list(outputs)
        return self.graph.copy()


def compile_and_check(graph: QuantizedGraph, target: str = "B512", runs: int = 2) -> Compiled:
    """Compile a graph; assert that its outputs on the simulator are those of the reference.

    The reference gets the graph as a file has it.
    """
    chosen = Target.from_name(target)
    compiled = compile_with_report(graph, chosen)
    again = xir.Graph.from_bytes(compiled.graph.to_bytes())
    random_bytes = np.random.default_rng(3)
    with GraphRunner(again, device="iss", target=chosen, check=True) as runner:
        for _ in range(runs):
            given = {
                t.name: random_bytes.integers(-128, 128, t.dims, np.int8)
                for t in runner.get_input_tensors()
            }
            wanted = evaluate_quantized(to_xir(graph), given)
            found = runner.run(given)
            assert set(found) == set(wanted)
            for name, values in wanted.items():
                if values.dtype == np.int8:
                    np.testing.assert_array_equal(found[name], values, err_msg=name)
                else:
                    np.testing.assert_allclose(
                        found[name], values, rtol=2e-5, atol=1e-6, err_msg=name
                    )
    return compiled
