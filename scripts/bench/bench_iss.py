# SPDX-License-Identifier: Apache-2.0
"""Measure the functional simulator; prints JSON.

``resnet50``: a program with the convolutions, additions and pooling of ResNet-50 at 224x224
(4.1 GMAC), tiled the way a compiler would, on random data. ``file``: the DPU subgraphs of an
``.xmodel``. ``kernels``: ways to multiply int8 matrices of the sizes that CONV has.
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import xir
from opendpu.runtime.device import Job
from opendpu_arch import isa
from opendpu_arch.isa import AluMode, Engine
from opendpu_arch.target import Target
from opendpu_sim.device import IssDevice
from opendpu_sim.model.conv import matrix_product

LOAD, SAVE, CONV, MISC = (1 << e for e in Engine)
WEIGHTS, WORK = 0, 1


@dataclasses.dataclass
class Layer:
    """One convolution of a square image."""

    size: int
    channels: int
    outputs: int
    kernel: int
    stride: int

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        out = self.size // self.stride
        return out * out * self.outputs * self.channels * self.kernel**2


def resnet50() -> list[Layer]:
    """Return the convolutions of ResNet-50; the first is folded to kernel width 1."""
    layers = [Layer(112, 21, 64, 7, 1)]
    channels = 64
    for blocks, width, size, stride in ((3, 64, 56, 1), (4, 128, 56, 2), (6, 256, 28, 2),
                                        (3, 512, 14, 2)):  # fmt: skip
        for block in range(blocks):
            step = stride if block == 0 else 1
            layers += [
                Layer(size, channels, width, 1, step),
                Layer(size // step, width, width, 3, 1),
                Layer(size // step, width, 4 * width, 1, 1),
            ]
            if block == 0:
                layers.append(Layer(size, channels, 4 * width, 1, step))
            channels, size = 4 * width, size // step
    layers.append(Layer(1, 2048, 1008, 1, 1))
    return layers


def layer_program(layer: Layer, target: Target) -> list[isa.Instruction]:
    """Return instructions for one layer: rows in, weights in, CONV, rows out, tile after tile."""
    parallel, lanes, depth = target.pixel_parallel, target.channel_parallel, target.bank_depth
    groups = math.ceil(layer.channels / lanes)
    out_size = layer.size // layer.stride
    taps = layer.kernel * (1 if layer.channels == 21 else layer.kernel)
    kernel_w = taps // layer.kernel
    pad = layer.kernel // 2
    row_words = layer.size * groups
    program: list[isa.Instruction] = []
    # output channels in the bank at a time, input rows that live in one bank one above the other
    for top in range(0, out_size, parallel):
        rows = min(parallel, out_size - top)
        in_rows = (rows - 1) * layer.stride + layer.kernel
        levels = math.ceil(in_rows / parallel / layer.stride) * layer.stride
        assert levels * row_words <= depth, layer
        loads: list[isa.Instruction] = [
            isa.Load(
                bank_id=r // layer.stride % parallel,
                bank_addr=(r // layer.stride // parallel * layer.stride + r % layer.stride)
                * row_words,
                channel=layer.channels,
                length=layer.size,
                jump_read=layer.channels,
                jump_write=groups,
                reg_id=WORK,
                ddr_addr=(top * layer.stride + r) * layer.size * layer.channels,
            )
            for r in range(in_rows)
        ]
        for first in range(0, layer.outputs, lanes):
            size = taps * groups * lanes
            start = first * size % (1 << 20)
            slot = first // lanes % 2 * (depth // 2) if taps * groups * 2 <= depth else 0
            loads += [
                isa.Load(
                    bank_id=target.convw_base + lane,
                    bank_addr=slot,
                    channel=min(size, 16384),
                    jump_read=min(size, 16384),
                    jump_write=min(size, 16384) // lanes,
                    length=math.ceil(size / 16384),
                    reg_id=WEIGHTS,
                    ddr_addr=start + lane * size,
                )
                for lane in range(lanes)
            ]
            loads.append(
                isa.Load(bank_id=target.bias_bank, bank_addr=first // lanes, channel=lanes,
                         reg_id=WEIGHTS, ddr_addr=first)
            )  # fmt: skip
            loads[-1] = dataclasses.replace(loads[-1], dpdby=LOAD | CONV)
            first_load = dataclasses.replace(loads[0], dpdon=LOAD | CONV) if program else loads[0]
            program += [first_load, *loads[1:]]
            loads = []
            bases = [level * row_words * layer.stride - pad * groups for level in range(4)]
            program += [
                isa.ConvInit(
                    act_type=isa.ActType.RELU,
                    shift_cut=7 + int(math.log2(taps * layer.channels)) // 2,
                    shift_bias=5,
                    jump_read=groups,
                    jump_read_endl=row_words,
                    jump_write=1,
                    jump_write_endl=out_size,
                    stride_h=layer.stride,
                    stride_w=layer.stride,
                    kernel_h=layer.kernel,
                    kernel_w=kernel_w,
                    valid_pixel_parallel=rows,
                ),
                isa.Conv(
                    dpdon=CONV | LOAD,
                    dpdby=CONV | SAVE | LOAD,
                    pad_left=pad if kernel_w > 1 else 0,
                    pad_top=pad if top == 0 else 0,
                    pad_right=pad if kernel_w > 1 else 15,
                    pad_bottom=pad,
                    bank_id_in=0,
                    bank_addr_in=bases[0] % depth,
                    bank_addr_in_1=bases[1] % depth,
                    bank_addr_in_2=bases[2] % depth,
                    bank_addr_in_3=bases[3] % depth,
                    channel_group=groups,
                    channel_offset=groups * lanes - layer.channels,
                    length=out_size,
                    bank_id_out=parallel,
                    bank_addr_out=0,
                    bank_addr_weights=slot,
                    bank_addr_bias=first // lanes,
                ),
            ]
            program += [
                isa.Save(
                    dpdon=SAVE | CONV if row == 0 else SAVE,
                    bank_id=parallel + row,
                    channel=lanes,
                    length=out_size,
                    jump_write=layer.outputs,
                    reg_id=WORK,
                    ddr_addr=(4 << 20) + (top + row) * out_size * layer.outputs + first,
                )
                for row in range(rows)
            ]
    # the token of the last CONV of a layer goes to the first LOAD of the next
    return program


def add_program(size: int, channels: int, target: Target) -> list[isa.Instruction]:
    """Return ELEWs over an image of random bytes that is in the banks anyway."""
    rows = target.alu_pixel_parallel
    groups = channels // target.channel_parallel
    program: list[isa.Instruction] = []
    for _ in range(0, size, rows):
        for number in range(2):
            program.append(isa.ElewInit(id=number, bank_id_in=rows * number, jump_read=groups))
        program.append(
            isa.Elew(num=2, length=size, valid_pixel_parallel=min(rows, size), act_type=1,
                     bank_id_out=target.pixel_parallel, channel_group=groups, jump_write=groups,
                     shift_write=17)
        )  # fmt: skip
    return program


def resnet50_program(target: Target) -> tuple[bytes, int]:
    """Return the machine code, and its multiply-accumulates."""
    program: list[isa.Instruction] = []
    macs = 0
    for layer in resnet50():
        part = layer_program(layer, target)
        if program:
            part[0] = dataclasses.replace(part[0], dpdon=part[0].dpdon | CONV)
        program += part
        macs += layer.macs
    # the last CONV's token to LOAD has nobody to take it
    last = max(n for n, i in enumerate(program) if isinstance(i, isa.Conv))
    program[last] = dataclasses.replace(program[last], dpdby=CONV | SAVE)
    for size, channels, count in ((56, 256, 3), (28, 512, 4), (14, 1024, 6), (7, 2048, 3)):
        for _ in range(count):
            program += add_program(size, channels, target)
    program += [
        isa.AluInit(exec_mode=AluMode.MAXPOOL, kernel_h=3, kernel_w=3, stride_h=2, stride_w=2,
                    length=56, channel_group=4, jump_read=4, jump_write=4, jump_read_endl=448,
                    jump_write_endl=224, shift_cut=8)
    ]  # fmt: skip
    program += [
        isa.Alu(valid_pixel_parallel=target.alu_pixel_parallel, bank_id_out=target.pixel_parallel,
                pad_right=255, pad_bottom=255)
        for _ in range(56 // target.alu_pixel_parallel)
    ]  # fmt: skip
    program.append(isa.End(dpdon=SAVE, dpdby=SAVE))
    return isa.encode(program), macs


def run(code: bytes, target: Target, segments: dict[int, Any], repeat: int) -> dict[str, Any]:
    """Run a program a few times on the device; return the figures."""
    device = IssDevice(target)
    first = device.run(Job(code, segments))
    times = [device.run(Job(code, segments)).wall_seconds for _ in range(repeat)]
    return {
        "instructions": first.instructions,
        "bytes_read": first.bytes_read,
        "bytes_written": first.bytes_written,
        "first_seconds": round(first.wall_seconds, 6),
        "warm_seconds": round(min(times), 6),
        "warm_seconds_mean": round(sum(times) / len(times), 6),
    }


def bench_resnet50(target: Target, repeat: int) -> dict[str, Any]:
    """Measure the program of ResNet-50's size."""
    code, macs = resnet50_program(target)
    noise = np.random.default_rng(0)
    segments = {i: noise.integers(0, 256, 24 << 20, np.uint8) for i in (WEIGHTS, WORK)}
    result = run(code, target, segments, repeat)
    result["gmac"] = round(macs / 1e9, 3)
    result["gmac_per_second"] = round(macs / 1e9 / result["warm_seconds"], 2)
    return result


def bench_file(path: pathlib.Path, repeat: int) -> list[dict[str, Any]]:
    """Measure every DPU subgraph of a compiled model, on zero inputs."""
    results = []
    root = xir.Graph.deserialize(path).get_root_subgraph()
    for child in root.toposort_child_subgraph():
        if child.get_attr("device") != "DPU":
            continue
        sizes = child.get_attr("reg_id_to_size")
        segments = {int(k[4:]): np.zeros(size, np.uint8) for k, size in sizes.items()}
        for name, blob in child.get_attr("reg_id_to_parameter_value").items():
            segments[int(name[4:])][: len(blob)] = np.frombuffer(blob, np.uint8)
        target = Target.from_fingerprint(child.get_attr("dpu_fingerprint"))
        results.append(
            {
                "file": path.name,
                "subgraph": child.get_name(),
                **run(bytes(child.get_attr("mc_code")), target, segments, repeat),
            }
        )
    return results


def bench_kernels() -> list[dict[str, Any]]:
    """Time ways to do a CONV's matrix product, in GMAC/s, conversions from int8 included."""
    techniques: dict[str, Callable[[Any, Any], Any]] = {
        "float32 BLAS in exact pieces": lambda x, w: matrix_product(
            x.astype(np.float32), w.astype(np.float32)
        ),
        "float64 BLAS": lambda x, w: x.astype(np.float64) @ w.astype(np.float64).T,
        "int32 numpy": lambda x, w: x.astype(np.int32) @ w.astype(np.int32).T,
    }
    try:
        import numba  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        pass
    else:

        @numba.njit(fastmath=True)  # type: ignore[misc, unused-ignore]
        def loops(x: Any, w: Any) -> Any:
            out = np.zeros((x.shape[0], w.shape[0]), np.int32)
            for m in range(x.shape[0]):
                for n in range(w.shape[0]):
                    total = np.int32(0)
                    for k in range(x.shape[1]):
                        total += np.int32(x[m, k]) * np.int32(w[n, k])
                    out[m, n] = total
            return out

        techniques["numba loops on int8"] = loops
    noise = np.random.default_rng(0)
    results = []
    for m, k, n in ((448, 576, 16), (224, 1152, 16), (448, 64, 16), (49, 4608, 16)):
        x = noise.integers(-128, 128, (m, k), np.int8)
        w = noise.integers(-128, 128, (n, k), np.int8)
        row: dict[str, Any] = {"m": m, "k": k, "n": n}
        for name, technique in techniques.items():
            technique(x, w)
            best = math.inf
            for _ in range(20):
                start = time.perf_counter()
                technique(x, w)
                best = min(best, time.perf_counter() - start)
            row[name] = round(m * k * n / best / 1e9, 2)
        results.append(row)
    return results


def main() -> None:
    """Print the figures that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["resnet50", "kernels"],
                        help="resnet50, kernels, or .xmodel files")  # fmt: skip
    parser.add_argument("--target", default="B4096", help="for resnet50 (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=5, help="warm runs (default: %(default)s)")
    args = parser.parse_args()
    report: dict[str, Any] = {"cpus": os.cpu_count(), "numpy": np.__version__}
    for what in args.what:
        if what == "resnet50":
            report[what] = bench_resnet50(Target.from_name(args.target), args.repeat)
        elif what == "kernels":
            report[what] = bench_kernels()
        else:
            report.setdefault("files", []).extend(bench_file(pathlib.Path(what), args.repeat))
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
