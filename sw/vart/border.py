# SPDX-License-Identifier: Apache-2.0
"""Tensors as AMD's runners give them: with the names outside of a subgraph and places in memory."""

from collections import Counter

from opendpu.runtime.program import Port, Program
from xir import Subgraph, Tensor

IN_DDR = 1
"""``location`` of tensors that lie in a segment."""


def input_tensors(subgraph: Subgraph, program: Program) -> list[Tensor]:
    """Return a DPU subgraph's inputs in the order of ``program.inputs``.

    Each has the name and attributes of the tensor outside of the subgraph, as in AMD's runners, and
    those of the upload behind it, its place among them. One that has several uploads, or none, is
    given as it is.
    """
    outside = {tensor.name: tensor for tensor in subgraph.get_input_tensors()}
    names = Counter(alias for port in program.inputs for alias in port.aliases)
    made = []
    for port in program.inputs:
        single = [name for name in port.aliases if name in outside and names[name] == 1]
        fits = [outside[name] for name in single if outside[name].dims == port.tensor.dims]
        made.append(_placed(fits[0], port, port.tensor, fits[0]) if fits else port.tensor)
    return made


def placed(tensor: Tensor, port: Port | None) -> Tensor:
    """Return a copy of a tensor that says where in memory it is; itself where it says so."""
    if port is None or tensor.has_attr("reg_id"):
        return tensor
    return _placed(tensor, port, tensor)


def _placed(tensor: Tensor, port: Port, *sources: Tensor) -> Tensor:
    """Return a copy with the attributes of ``sources``, the last one's first, and a place."""
    made = Tensor(tensor.name, tensor.dims, tensor.data_type)
    for source in sources:
        for key in source.get_attrs():
            made.set_attr(key, source.get_attr(key), source.get_attr_kind(key))
    for key, value in ("reg_id", port.reg_id), ("ddr_addr", port.address), ("location", IN_DDR):
        made.set_attr(key, value, "int32")
    return made
