# SPDX-License-Identifier: Apache-2.0
"""Attributes of compiled ops and tensors: places in DDR, quantization."""

import dataclasses
from typing import Any

import xir
from opendpu.compiler.plan import WORKSPACE_REG, Memory, Plan
from opendpu.ir import Quantization
from opendpu.ir.xir_bridge import quantization_attributes


def set_attrs(op: xir.Op, **attrs: Any) -> None:
    """Set attributes of an op."""
    for key, value in attrs.items():
        op.set_attr(key, value)


def locate(op: xir.Op, reg_id: int, address: int, location: int) -> None:
    """Write the place of a result; ``location`` is 1 for DDR and 0 for what stays on chip."""
    tensor = op.get_output_tensor()
    tensor.set_attr("reg_id", reg_id)
    tensor.set_attr("ddr_addr", address)
    tensor.set_attr("location", location)


def place(op: xir.Op, plan: Plan, name: str) -> None:
    """Write where a tensor is in DDR, with its steps in elements, or that it is not there."""
    dims = op.get_output_tensor().dims
    memory = _in_ddr(plan, name, width=(1, 1, *dims[1:])[-2])
    if memory is None:
        locate(op, WORKSPACE_REG, 0, 0)
        return
    locate(op, memory.reg_id, memory.address, 1)
    size = op.get_output_tensor().data_type.bit_width // 8
    steps = [memory.row_bytes // size, memory.pixel_bytes // size, 1]
    stride = steps[max(0, 4 - len(dims)) :] or [1]
    while len(stride) < len(dims):
        stride.insert(0, dims[-len(stride)] * stride[0])
    op.get_output_tensor().set_attr("stride", stride)


def _in_ddr(plan: Plan, name: str, width: int) -> Memory | None:
    """Return where a feature map is in DDR as one tensor ``width`` wide, if it is there at all.

    One in planes is not, nor one whose pixels are repeated when they are loaded.
    """
    memory, feature = plan.memory.get(name), plan.network.features.get(name)
    if memory is None or feature is None or feature.planes:
        return None
    if memory.repeat_h * memory.repeat_w > 1:
        return None
    if feature.width == width or memory.row_bytes != feature.width * memory.pixel_bytes:
        return memory
    return dataclasses.replace(memory, row_bytes=width * memory.pixel_bytes)


def quantization(tensor: xir.Tensor, found: Quantization) -> None:
    """Write which integers a tensor has, and what real numbers they stand for."""
    for key, value in quantization_attributes(found).items():
        tensor.set_attr(key, value)
