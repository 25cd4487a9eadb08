# SPDX-License-Identifier: Apache-2.0
"""Random networks, what they compute, and how to run their programs."""

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from opendpu.compiler.backend import BACKEND_PASSES, BackendPass, build
from opendpu.compiler.layers import (
    AluLayer,
    ConvLayer,
    EltwiseLayer,
    Feature,
    Layer,
    SharedDepthwiseLayer,
    Window,
    channel_groups,
)
from opendpu.compiler.network import Network
from opendpu.compiler.network.balance import on_array
from opendpu.compiler.program import Program
from opendpu.runtime.device import Job
from opendpu_arch import isa, numerics
from opendpu_arch.isa import ActType, AluMode
from opendpu_arch.target import Target
from opendpu_sim.device import IssDevice


class Draw:
    """Grows a network layer by layer."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.features: dict[str, Feature] = {}
        self.layers: list[Layer] = []

    def feature(self, height: int, width: int, channels: int) -> str:
        name = f"f{len(self.features)}"
        self.features[name] = Feature(name=name, height=height, width=width, channels=channels)
        return name

    def bytes(self, *shape: int) -> np.ndarray:
        made = np.random.default_rng(self.random.randrange(1 << 30))
        return made.integers(-128, 128, shape).astype(np.int8)

    def window(self, source: Feature, kernels: list[int]) -> tuple[Window, int, int] | None:
        """Return a window that fits ``source``, and rows and columns of its result."""
        pick = self.random
        height = min(pick.choice(kernels), source.height + 1)
        width = min(pick.choice([height, height, pick.choice(kernels)]), source.width + 1)
        stride_h = pick.choice([1, 1, 2, 3])
        stride_w = pick.choice([stride_h, stride_h, 1, 2])
        top, bottom = (pick.choice([0, pick.randint(0, height - 1)]) for _ in range(2))
        left, right = (pick.choice([0, pick.randint(0, width - 1)]) for _ in range(2))
        rows = (source.height + top + bottom - height) // stride_h + 1
        columns = (source.width + left + right - width) // stride_w + 1
        if rows < 1 or columns < 1:
            return None
        made = Window(
            kernel_h=height, kernel_w=width, stride_h=stride_h, stride_w=stride_w,
            pad_top=top, pad_left=left,
        )  # fmt: skip
        return made, rows, columns

    def conv(self, name: str) -> str | None:
        source = self.features[name]
        found = self.window(source, [1, 1, 2, 3, 3, 4, 5, 7])
        if found is None:
            return None
        window, rows, columns = found
        channels = self.random.choice([1, 3, 4, 7, 8, 16, 17, 30, 40])
        output = self.feature(rows, columns, channels)
        self.layers.append(
            ConvLayer(
                name=f"conv_{output}", source=name, output=output, window=window,
                weights=self.bytes(channels, window.kernel_h, window.kernel_w, source.channels),
                bias=self.bytes(channels), shift_cut=self.random.randint(7, 13),
                shift_bias=self.random.randint(0, 8),
                act_type=self.random.choice([0, ActType.RELU, ActType.LEAKYRELU, ActType.RELU6]),
            )
        )  # fmt: skip
        return output

    def block(self, name: str) -> str:
        """Add convolutions or depthwise ones of stride 1, and often their input at the end."""
        pick, source = self.random, self.features[name]
        before = name
        for number in range(pick.randint(1, 3)):
            kernel = pick.choice([1, 1, 3])
            window = Window(
                kernel_h=kernel, kernel_w=kernel, pad_top=kernel // 2, pad_left=kernel // 2
            )
            inputs = self.features[name].channels
            deep = number and pick.random() < 0.5
            channels = inputs if deep else pick.choice([inputs, source.channels, 16, 24])
            output = self.feature(source.height, source.width, channels)
            shared = {
                "name": f"block_{output}", "source": name, "output": output, "window": window,
                "bias": self.bytes(channels), "shift_bias": pick.randint(0, 8),
                "shift_cut": pick.randint(7, 11), "act_type": pick.choice([0, ActType.RELU]),
            }  # fmt: skip
            weights = self.bytes(channels, kernel, kernel, inputs)
            if deep:
                self.layers.append(AluLayer(mode=AluMode.DWCV, weights=weights[..., 0].transpose(
                    1, 2, 0), **shared))  # fmt: skip
            else:
                self.layers.append(ConvLayer(weights=weights, **shared))
            name = output
        if self.features[name].channels == source.channels:
            output = self.feature(source.height, source.width, source.channels)
            self.layers.append(
                EltwiseLayer(
                    name=f"add_{output}", sources=tuple(pick.sample([before, name], 2)),
                    output=output, shift_read=(pick.randint(0, 2), 0),
                    shift_write=pick.choice([0, 16, 17]), relu=pick.random() < 0.5,
                )
            )  # fmt: skip
            name = output
        return name

    def alu(self, name: str) -> str | None:
        source = self.features[name]
        mode = self.random.choice([AluMode.DWCV, AluMode.AVEPOOL, AluMode.MAXPOOL])
        found = self.window(source, [1, 2, 3, 3, 5, 7])
        if found is None:
            return None
        window, rows, columns = found
        output = self.feature(rows, columns, source.channels)
        fields: dict = {"shift_cut": self.random.choice([0, 0, 1, 9])}
        if mode == AluMode.AVEPOOL:
            factor, right = self.random.randint(1, 127), self.random.randint(5, 9)
            fields = {"multi_factor": factor, "shift_cut": 8 + right}
        elif mode == AluMode.DWCV:
            fields = {
                "weights": self.bytes(window.kernel_h, window.kernel_w, source.channels),
                "bias": self.bytes(source.channels), "shift_cut": self.random.randint(5, 9),
                "shift_bias": self.random.randint(0, 8),
                "act_type": self.random.choice([0, ActType.RELU, ActType.RELU6]),
            }  # fmt: skip
        self.layers.append(
            AluLayer(
                name=f"alu_{output}", source=name, output=output, window=window, mode=mode, **fields
            )
        )
        return output

    def add(self, name: str) -> str:
        like = self.features[name]
        shape = (like.height, like.width, like.channels)
        same = [n for n, f in self.features.items() if (f.height, f.width, f.channels) == shape]
        sources = [self.random.choice(same) for _ in range(self.random.randint(1, 4))]
        output = self.feature(*shape)
        self.layers.append(
            EltwiseLayer(
                name=f"add_{output}", sources=tuple(sources), output=output,
                shift_read=tuple(self.random.randint(0, 2) for _ in sources),
                shift_write=self.random.choice([0, 1, 16, 17, 18]),
                relu=self.random.random() < 0.5,
            )
        )  # fmt: skip
        return output


def draw_network(seed: int, most_layers: int = 5) -> Network:
    """Return a random network with one input."""
    draw = Draw(seed)
    pick = draw.random
    size = 40 if pick.random() < 0.3 else 16
    name = draw.feature(
        pick.randint(1, size), pick.randint(1, size), pick.choice([1, 3, 4, 8, 13, 16, 33, 64])
    )
    for _ in range(pick.randint(1, most_layers)):
        grow = [draw.conv, draw.conv, draw.alu, draw.add, draw.block, draw.block]
        name = pick.choice(grow)(name) or name
    if not draw.layers:
        draw.add(name)
    used = {s for layer in draw.layers for s in layer.operands}
    made = [layer.output for layer in draw.layers]
    return Network(
        features=draw.features,
        layers=tuple(draw.layers),
        inputs=("f0",),
        outputs=tuple(n for n in made if n not in used or pick.random() < 0.1),
    )


def replace_pass(name: str, run: Callable[[Any, Target], Any]) -> tuple[BackendPass, ...]:
    """Return the passes of the backend, one of them replaced."""
    assert name in [one.name for one in BACKEND_PASSES]
    return tuple(
        dataclasses.replace(one, run=run) if one.name == name else one for one in BACKEND_PASSES
    )


def _shared(layer: Layer, network: Network, target: Target, groups: int) -> Layer:
    """Return a layer that leaves so many channel groups to the array, if that can be."""
    if not isinstance(layer, AluLayer) or on_array(layer, target) is None:
        return layer
    on = min(groups, channel_groups(network.features[layer.output], target) - 1)
    if on < 1:
        return layer
    fields = {f.name: getattr(layer, f.name) for f in dataclasses.fields(layer)}
    return SharedDepthwiseLayer(**fields, array_groups=on, parallel=target.channel_parallel)


def share_everything(network: Network, target: Target) -> Network:
    """Return ``network`` with one to three channel groups of depthwise layers on the array."""
    layers = (_shared(x, network, target, n % 3 + 1) for n, x in enumerate(network.layers))
    return dataclasses.replace(network, layers=tuple(layers))


def draw_inputs(network: Network, seed: int) -> dict[str, np.ndarray]:
    random_bytes = np.random.default_rng(seed)
    inputs = {}
    for name in network.inputs:
        f = network.features[name]
        inputs[name] = random_bytes.integers(-128, 128, (f.height, f.width, f.channels), np.int8)
    return inputs


def _taps(layer: ConvLayer | AluLayer, x: np.ndarray, out: Feature, fill: int):
    """Yield row, column and inputs of every tap."""
    w = layer.window
    height = (out.height - 1) * w.stride_h + w.kernel_h
    width = (out.width - 1) * w.stride_w + w.kernel_w
    frame = np.full((height, width, x.shape[2]), fill, np.int64)
    inside = x[: height - w.pad_top, : width - w.pad_left]
    frame[w.pad_top :, w.pad_left :][: inside.shape[0], : inside.shape[1]] = inside
    for row in range(w.kernel_h):
        for column in range(w.kernel_w):
            yield (
                row,
                column,
                frame[
                    row : row + (out.height - 1) * w.stride_h + 1 : w.stride_h,
                    column : column + (out.width - 1) * w.stride_w + 1 : w.stride_w,
                ],
            )


def _compute(layer: ConvLayer | AluLayer, x: np.ndarray, out: Feature) -> np.ndarray:
    largest = isinstance(layer, AluLayer) and layer.mode == AluMode.MAXPOOL
    taps = list(_taps(layer, x, out, -128 if largest else 0))
    if largest:
        maximum = np.max([t for _, _, t in taps], axis=0)
        return numerics.max_pool(maximum, shift_cut=layer.shift_cut)
    if layer.weights is None:
        total = np.sum([t for _, _, t in taps], axis=0)
        return numerics.average_pool(
            total, multi_factor=layer.multi_factor, shift_cut=layer.shift_cut
        )
    weights = layer.weights.astype(np.int64)
    if isinstance(layer, ConvLayer):
        total = sum(t @ weights[:, row, column].T for row, column, t in taps)
    else:
        total = sum(t * weights[row, column] for row, column, t in taps)
    return numerics.requantize(
        total, layer.bias, shift_bias=layer.shift_bias, shift_cut=layer.shift_cut,
        act_type=layer.act_type,
    )  # fmt: skip


def expected(network: Network, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return every feature map, computed layer by layer on whole arrays."""
    values = dict(inputs)
    for layer in network.layers:
        if isinstance(layer, EltwiseLayer):
            values[layer.output] = numerics.eltwise_add(
                [values[s] for s in layer.sources], shift_read=layer.shift_read,
                shift_write=layer.shift_write, relu=layer.relu,
            )  # fmt: skip
        else:
            out = network.features[layer.output]
            values[layer.output] = _compute(layer, values[layer.source], out)
    return values


def view(program: Program, segments: dict[int, np.ndarray], name: str) -> np.ndarray:
    """Return a feature map where it lies in DDR."""
    memory, feature = program.plan.memory[name], program.plan.network.features[name]
    return np.lib.stride_tricks.as_strided(
        segments[memory.reg_id].view(np.int8)[memory.address :],
        (feature.height, feature.width, feature.channels),
        (memory.row_bytes, memory.pixel_bytes, 1),
    )


def run(
    program: Program, target: Target, inputs: dict[str, np.ndarray], **options: object
) -> dict[str, np.ndarray]:
    """Return the outputs of a program on the functional simulator."""
    segments = {r: np.zeros(n, np.uint8) for r, n in program.plan.segment_bytes.items()}
    segments[0] = np.frombuffer(program.plan.blob, np.uint8).copy()
    for name, values in inputs.items():
        view(program, segments, name)[...] = values
    code = isa.encode(program.schedule.instructions)
    IssDevice(target, **options).run(Job(code, segments))
    return {n: view(program, segments, n).copy() for n in program.plan.network.outputs}


def check(network: Network, target: Target, seed: int, **options: object) -> Program:
    """Compile and run a network; assert that every output is as expected."""
    program = build(network, target)
    inputs = draw_inputs(network, seed)
    wanted = expected(network, inputs)
    for name, found in run(program, target, inputs, **options).items():
        np.testing.assert_array_equal(found, wanted[name], err_msg=f"{name} of seed {seed}")
    return program
