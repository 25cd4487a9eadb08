# SPDX-License-Identifier: Apache-2.0
"""Attributes of compiled ops and tensors: places in DDR, quantization."""

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


def place_in_ddr(plan: Plan, name: str) -> Memory | None:
    """Return where a feature map is in DDR as one tensor, if it is there at all.

    One in planes is not, nor one whose pixels are repeated when they are loaded.
    """
    memory = plan.memory.get(name)
    if memory is None or memory.repeat_h * memory.repeat_w > 1:
        return None
    feature = plan.network.features.get(name)
    return None if feature is not None and feature.planes else memory


def place(op: xir.Op, memory: Memory | None) -> None:
    """Write where a tensor is in DDR, with its steps in elements, or that it stays on chip."""
    if memory is None:
        locate(op, WORKSPACE_REG, 0, 0)
        return
    dims = op.get_output_tensor().dims
    locate(op, memory.reg_id, memory.address, 1)
    size = op.get_output_tensor().data_type.bit_width // 8
    steps = [memory.row_bytes // size, memory.pixel_bytes // size, 1]
    stride = steps[max(0, 4 - len(dims)) :] or [1]
    while len(stride) < len(dims):
        stride.insert(0, dims[-len(stride)] * stride[0])
    op.get_output_tensor().set_attr("stride", stride)


def quantization(tensor: xir.Tensor, found: Quantization) -> None:
    """Write which integers a tensor has, and what real numbers they stand for."""
    for key, value in quantization_attributes(found).items():
        tensor.set_attr(key, value)
