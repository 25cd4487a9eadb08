# SPDX-License-Identifier: Apache-2.0
"""Whole networks, compiled by us: cycles, utilization, and what each engine was busy with.

``resnet50`` has random weights (cycles do not depend on them); the MLPerf Tiny networks come from
the folder of models. Outputs of the device are compared with the functional simulator's.

    python scripts/bench/bench_networks.py resnet50 kws --device rtl --memory kv260 --json
"""

import argparse
import json
import pathlib
import time

import numpy as np
import numpy.typing as npt

import xir
from opendpu.compiler.pipeline import compile_with_report
from opendpu.frontend import load_onnx
from opendpu.ir import Draft
from opendpu.quantize import quantize
from opendpu.runtime import GraphRunner
from opendpu_arch.target import Target

TINY = {
    "kws": ("kws_dscnn.onnx", 4.0),
    "ic": ("ic_resnet8.onnx", 255.0),
    "vww": ("vww_mobilenetv1_025.onnx", 1.0),
    "ad": ("ad01.onnx", 4.0),
}
"""File and range of the input."""
STAGES = ((3, 64, 256), (4, 128, 512), (6, 256, 1024), (3, 512, 2048))
"""ResNet-50: blocks, channels inside, channels of the result."""

Int8Array = npt.NDArray[np.int8]


class Random:
    """A quantized graph with random constants in the making."""

    def __init__(self, seed: int) -> None:
        self.draft = Draft("random")
        self.random = np.random.default_rng(seed)

    def fix(self, name: str, point: int) -> str:
        """Quantize a result; return the name that stands for it."""
        attrs = {
            "bit_width": 8, "fix_point": point, "if_signed": True, "round_mode": "DPU_ROUND"
        }  # fmt: skip
        shape = self.draft[name].shape
        return self.draft.add(f"{name}_fix", "fix", shape, {"input": [name]}, attrs).name

    def const(self, name: str, *shape: int) -> str:
        """Add a constant."""
        values = self.random.integers(-128, 128, shape) * 2.0**-7
        self.draft.add(name, "const", shape, value=values.astype(np.float32))
        return self.fix(name, 7)

    def relu(self, name: str) -> str:
        """Add a ReLU and quantize it."""
        inputs = {"input": [name]}
        return self.fix(
            self.draft.add(f"{name}_relu", "relu", self.draft[name].shape, inputs).name, 4
        )

    def conv(self, source: str, name: str, channels: int, kernel: int, stride: int) -> str:
        """Add a convolution that keeps the size but for its stride, without activation."""
        _, height, width, inputs = self.draft[source].shape
        given = {
            "input": [source],
            "weights": [self.const(f"{name}_w", channels, kernel, kernel, inputs)],
            "bias": [self.const(f"{name}_b", channels)],
        }
        attrs = {
            "kernel": [kernel] * 2, "stride": [stride] * 2, "pad": [(kernel - 1) // 2] * 4,
            "pad_mode": "FLOOR",
        }  # fmt: skip
        shape = (1, -(-height // stride), -(-width // stride), channels)
        return self.draft.add(name, "conv2d", shape, given, attrs).name

    def pool(self, source: str, name: str, kind: str, kernel: int, stride: int, pad: int) -> str:
        """Add a pooling."""
        _, height, width, channels = self.draft[source].shape
        rows, columns = ((n + 2 * pad - kernel) // stride + 1 for n in (height, width))
        attrs = {
            "kernel": [kernel] * 2, "stride": [stride] * 2, "pad": [pad] * 4, "pad_mode": "FLOOR"
        }  # fmt: skip
        shape = (1, rows, columns, channels)
        return self.fix(self.draft.add(name, kind, shape, {"input": [source]}, attrs).name, 4)


def resnet50(size: int, seed: int = 1) -> xir.Graph:
    """Return ResNet-50 v1.5 with random weights for images of ``size`` x ``size``."""
    net = Random(seed)
    net.draft.add("image", "data", (1, size, size, 3))
    x = net.relu(net.conv(net.fix("image", 5), "conv1", 64, 7, 2))
    x = net.pool(x, "pool1", "maxpool2d", 3, 2, 1)
    for stage, (blocks, inside, channels) in enumerate(STAGES):
        for block in range(blocks):
            stride = 2 if block == 0 and stage else 1
            name = f"stage{stage}_block{block}_"
            y = net.relu(net.conv(x, f"{name}a", inside, 1, 1))
            y = net.relu(net.conv(y, f"{name}b", inside, 3, stride))
            y = net.fix(net.conv(y, f"{name}c", channels, 1, 1), 4)
            if block == 0:
                x = net.fix(net.conv(x, f"{name}shortcut", channels, 1, stride), 4)
            shape = net.draft[y].shape
            x = net.relu(net.draft.add(f"{name}add", "add", shape, {"input": [y, x]}).name)
    height = net.draft[x].shape[1]
    x = net.pool(x, "pool", "avgpool2d", height, height, 0)
    attrs = {"shape": [1, 2048]}
    x = net.fix(net.draft.add("flat", "reshape", (1, 2048), {"input": [x]}, attrs).name, 4)
    given = {
        "input": [x], "weights": [net.const("dense_w", 1000, 2048)],
        "bias": [net.const("dense_b", 1000)],
    }  # fmt: skip
    net.draft.add("dense", "inner-product", (1, 1000), given, {"axis": 1})
    net.draft.outputs = [net.fix("dense", 3)]
    return net.draft.to_xir()


def tiny(name: str, models: pathlib.Path) -> xir.Graph:
    """Return a quantized MLPerf Tiny network; calibrated on noise, which cycles do not mind."""
    file, largest = TINY[name]
    graph = load_onnx(models / "mlperf_tiny" / file)
    (head,) = (op for op in graph.get_ops() if op.get_type() == "data")
    shape = head.get_output_tensor().dims[1:]
    samples = np.random.default_rng(0).random((8, *shape), np.float32) * largest
    return quantize(graph, {head.get_name(): samples})


def macs_of(graph: xir.Graph) -> int:
    """Return the multiply-accumulates of a quantized graph."""
    total = 0
    draft = Draft.from_xir(graph)
    for node in draft:
        if node.kind in ("conv2d", "depthwise-conv2d", "inner-product"):
            _, *kernel = draft[node.inputs["weights"][0]].shape
            pixels = int(np.prod(node.shape))
            total += pixels * int(
                np.prod(kernel if node.kind != "depthwise-conv2d" else kernel[:2])
            )
    return total


def measure(
    name: str, graph: xir.Graph, target: Target, device: str, memory: str
) -> dict[str, object]:
    """Compile a network, run it once on the device and on the functional simulator."""
    start = time.perf_counter()
    compiled = compile_with_report(graph, target)
    compile_seconds = time.perf_counter() - start
    results = {}
    cycles, busy, wall = 0, {}, 0.0
    for which in dict.fromkeys(("iss", device)):
        with GraphRunner(compiled.graph, device=which, target=target, memory=memory) as runner:
            random_bytes = np.random.default_rng(2)
            given = {
                t.name: random_bytes.integers(-128, 128, t.dims, np.int8)
                for t in runner.get_input_tensors()
            }
            results[which] = runner.run(given)
            last = runner.last_statistics
            assert last is not None
            cycles = last.cycles
            for part in last.subgraphs.values():
                busy, wall = dict(part.busy_cycles), part.wall_seconds
    for key, values in results["iss"].items():
        if not np.array_equal(values, results[device][key]):
            raise SystemExit(f"{name}: output {key} differs from the functional simulator's")
    macs = macs_of(graph)
    dpu = [s for s in compiled.report.subgraphs if s.device == "DPU"]
    return {
        "name": name, "target": target.name, "device": device, "memory": memory, "macs": macs,
        "instructions": sum(sum(s.instructions.values()) for s in dpu),
        "expected_cycles": sum(s.cycles for s in dpu), "cycles": cycles,
        "utilization": macs / (target.macs_per_cycle * cycles) if cycles else None,
        "busy_cycles": busy, "compile_seconds": compile_seconds, "wall_seconds": wall,
    }  # fmt: skip


def main() -> None:
    """Measure the networks named and print the figures."""
    repository = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("networks", nargs="+", choices=["resnet50", *TINY])
    parser.add_argument("--target", default="DPUCZDX8G_ISA1_B4096")
    parser.add_argument("--device", default="iss")
    parser.add_argument("--memory", default="kv260")
    parser.add_argument("--size", type=int, default=224, help="rows and columns for resnet50")
    parser.add_argument(
        "--models", type=pathlib.Path, default=repository.parent / "shared" / "models"
    )
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    target = Target.from_name(options.target)
    results = []
    for name in options.networks:
        graph = resnet50(options.size) if name == "resnet50" else tiny(name, options.models)
        result = measure(name, graph, target, options.device, options.memory)
        results.append(result)
        if not options.json:
            use = result["utilization"]
            figures = f"{result['cycles']} cycles, utilization {use:.1%}" if isinstance(
                use, float
            ) else f"about {result['expected_cycles']} cycles expected"  # fmt: skip
            print(f"{name} on {target.name}: {result['macs']} MACs, {figures}", flush=True)
    if options.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
