# SPDX-License-Identifier: Apache-2.0
"""How busy one convolution keeps the array: from DDR as compiled, and with its data on chip.

The default is the layer of the issue: 3x3, 64 to 64 channels, 56x56, on B4096. Results are checked
against whole-array arithmetic before a figure is printed; cycle figures need a device that counts
them (``--device rtl``).

    python scripts/bench/bench_conv_layer.py --device rtl --memory kv260 --json
"""

import argparse
import dataclasses
import json
import sys

import numpy as np
import numpy.typing as npt

from opendpu.compiler.backend import build
from opendpu.compiler.banks import Region
from opendpu.compiler.banks.layout import address_groups
from opendpu.compiler.emitter.emit import emit
from opendpu.compiler.kinds import EMITTERS
from opendpu.compiler.layers import ConvLayer, Feature, Window
from opendpu.compiler.network import Network
from opendpu.compiler.plan import INPUT_REG, OUTPUT_REG, LayerPlan, LoopNest, Memory, Plan
from opendpu.compiler.planner.memory import allocate_constants
from opendpu.compiler.program import Program
from opendpu.compiler.schedule import schedule
from opendpu.compiler.verify import verify
from opendpu.runtime.device import Job, JobStatistics
from opendpu.runtime.devices import open_device
from opendpu_arch import isa, numerics
from opendpu_arch.target import Target

Int8Array = npt.NDArray[np.int8]


def make_network(size: int, channels: int, kernel: int, stride: int, seed: int) -> Network:
    """Return a network of one convolution with ``channels`` in and out, padded to keep the size."""
    random_bytes = np.random.default_rng(seed)
    pad = kernel // 2
    result = (size + 2 * pad - kernel) // stride + 1
    window = Window(
        kernel_h=kernel, kernel_w=kernel, stride_h=stride, stride_w=stride,
        pad_top=pad, pad_left=pad,
    )  # fmt: skip
    weights = random_bytes.integers(-128, 128, (channels, kernel, kernel, channels), np.int8)
    layer = ConvLayer(
        name="conv", source="x", output="y", window=window, weights=weights,
        bias=random_bytes.integers(-128, 128, channels, np.int8), shift_cut=12, shift_bias=5,
        act_type=isa.ActType.RELU,
    )  # fmt: skip
    features = {
        "x": Feature(name="x", height=size, width=size, channels=channels),
        "y": Feature(name="y", height=result, width=result, channels=channels),
    }
    return Network(features=features, layers=(layer,), inputs=("x",), outputs=("y",))


def on_chip_program(network: Network, target: Target, repeat: int) -> Program:
    """Return a program that loads the input once and computes the layer ``repeat`` times.

    Only the last result is saved.
    """
    (layer,) = network.layers
    assert isinstance(layer, ConvLayer)
    x, y = network.features["x"], network.features["y"]
    features = {**network.features, "z": dataclasses.replace(y, name="z")}
    regions = {}
    for group, (feature, stride) in enumerate(((x, layer.window.stride_h), (y, 1))):
        capacity = address_groups(target, stride, feature.height)
        row = feature.width * -(-feature.channels // target.channel_parallel)
        words = capacity * stride * row
        if words > target.bank_depth:
            raise SystemExit(
                f"the data of the layer is {words} words a bank, but {target.name} has "
                f"{target.bank_depth}"
            )
        regions[feature.name] = Region(
            bank_group=group, base=0, words=words, stride=stride, capacity=capacity, whole=True
        )
    blocks = -(-y.channels // target.output_channel_parallel)
    nest = LoopNest(columns=y.width, rows=target.pixel_parallel, row_pass=y.height, groups=blocks)
    plans = [
        LayerPlan(
            layer=dataclasses.replace(layer, output="z" if last else "y"), nest=nest,
            sources=(regions["x"],), output=regions["y"],
        )
        for last in (False,) * (repeat - 1) + (True,)
    ]  # fmt: skip
    constants, blob = allocate_constants(network)
    sizes = {f.name: f.height * f.width * f.channels for f in features.values()}
    plan = Plan(
        network=dataclasses.replace(network, features=features, outputs=("z",)),
        layers=tuple(plans),
        memory={
            name: Memory(
                reg_id=reg_id, address=0, row_bytes=f.width * f.channels, pixel_bytes=f.channels
            )
            for name, reg_id, f in (("x", INPUT_REG, x), ("z", OUTPUT_REG, y))
        },
        constants=constants,
        segment_bytes={0: len(blob), 1: 0, INPUT_REG: sizes["x"], OUTPUT_REG: sizes["z"]},
        blob=blob,
    )
    return schedule(emit(plan, target, EMITTERS), target)


def reference(network: Network, x: Int8Array) -> Int8Array:
    """Return the layer's result, computed on whole arrays."""
    (layer,) = network.layers
    assert isinstance(layer, ConvLayer)
    w, out = layer.window, network.features["y"]
    frame = np.pad(x.astype(np.float64), ((w.pad_top,) * 2, (w.pad_left,) * 2, (0, 0)))
    total = np.zeros((out.height, out.width, out.channels))
    for row in range(w.kernel_h):
        for column in range(w.kernel_w):
            rows = slice(row, row + (out.height - 1) * w.stride_h + 1, w.stride_h)
            columns = slice(column, column + (out.width - 1) * w.stride_w + 1, w.stride_w)
            total += frame[rows, columns] @ layer.weights[:, row, column].T.astype(np.float64)
    return numerics.requantize(
        total.astype(np.int64), layer.bias, shift_bias=layer.shift_bias,
        shift_cut=layer.shift_cut, act_type=layer.act_type,
    )  # fmt: skip


def measure(
    program: Program, network: Network, target: Target, device: str, memory: str, seed: int
) -> JobStatistics:
    """Run a program, check its result, return its statistics."""
    verify(program, target)
    x, y = network.features["x"], network.features["y"]
    values = np.random.default_rng(seed).integers(
        -128, 128, (x.height, x.width, x.channels), np.int8
    )
    segments = {r: np.zeros(max(n, 1), np.uint8) for r, n in program.plan.segment_bytes.items()}
    segments[0][:] = np.frombuffer(program.plan.blob, np.uint8)
    segments[INPUT_REG][: values.size] = values.reshape(-1).view(np.uint8)
    opened = open_device(device, target, memory)
    try:
        statistics = opened.run(Job(isa.encode(program.schedule.instructions), segments))
    finally:
        opened.close()
    size = y.height * y.width * y.channels
    found = segments[OUTPUT_REG][:size].view(np.int8).reshape(y.height, y.width, y.channels)
    if not np.array_equal(found, reference(network, values)):
        raise SystemExit("the result is wrong")
    return statistics


def summarize(
    name: str, program: Program, network: Network, target: Target, repeat: int,
    statistics: JobStatistics,
) -> dict[str, object]:  # fmt: skip
    """Return the figures of one run."""
    (layer,) = network.layers
    assert isinstance(layer, ConvLayer)
    out = network.features["y"]
    macs = repeat * out.height * out.width * layer.weights.size
    cycles = statistics.cycles
    array = statistics.busy_cycles.get("array", 0)
    return {
        "name": name,
        "repeat": repeat,
        "macs": macs,
        "instructions": len(program.schedule.instructions),
        "expected_cycles": program.schedule.cycles,
        "cycles": cycles,
        "array_busy": array / cycles if cycles else None,
        "utilization": macs / (target.macs_per_cycle * cycles) if cycles else None,
        "statistics": statistics.as_dict(),
    }


def main() -> None:
    """Run both programs and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--target", default="DPUCZDX8G_ISA1_B4096")
    parser.add_argument("--device", default="iss")
    parser.add_argument("--memory", default="kv260")
    parser.add_argument("--size", type=int, default=56, help="rows and columns")
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--kernel", type=int, default=3)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3, help="passes of the on-chip program")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    target = Target.from_name(options.target)
    network = make_network(
        options.size, options.channels, options.kernel, options.stride, options.seed
    )
    programs = {
        "from DDR": (build(network, target), 1),
        "on chip": (on_chip_program(network, target, options.repeat), options.repeat),
    }
    results = []
    for name, (program, repeat) in programs.items():
        statistics = measure(program, network, target, options.device, options.memory, options.seed)
        results.append(summarize(name, program, network, target, repeat, statistics))
    settings = {k: v for k, v in vars(options).items() if k != "json"}
    if options.json:
        json.dump({**settings, "target": target.name, "results": results}, sys.stdout, indent=1)
        print()
        return
    print(f"{target.name}, device {options.device}, memory {options.memory}")
    for result in results:
        busy, use = result["array_busy"], result["utilization"]
        figures = (
            f"{result['cycles']} cycles, array busy {busy:.1%}, utilization {use:.1%}"
            if isinstance(busy, float) and isinstance(use, float)
            else f"about {result['expected_cycles']} cycles expected; this device counts none"
        )
        print(f"{result['name']}: {result['instructions']} instructions, {figures}")


if __name__ == "__main__":
    main()
