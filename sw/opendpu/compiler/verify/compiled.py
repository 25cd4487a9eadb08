# SPDX-License-Identifier: Apache-2.0
"""Rules of compiled graphs: what a runner will rely on."""

from collections.abc import Iterator

import xir
from opendpu.compiler.verify.rules import Finding
from opendpu_arch.target import Target

NEEDED = {
    "DPU": ("dpu_fingerprint", "mc_code", "reg_id_to_context_type", "reg_id_to_size"),
    "USER": (),
}
"""Attributes of a subgraph by device; plug-ins have devices of their own."""


def compiled_rules(graph: xir.Graph, target: Target) -> Iterator[Finding]:
    """Check subgraphs, their attributes, and the places of tensors."""
    known = {op.get_name() for op in graph.get_ops()}
    for name in graph.get_attr("return_ops"):
        if name not in known:
            yield Finding(name, "outputs-exist", "it is a return op, but no op")
    for subgraph in graph.get_root_subgraph().get_children():
        label = subgraph.get_name()
        device = subgraph.get_attr("device") if subgraph.has_attr("device") else None
        if not isinstance(device, str):
            yield Finding(label, "device", f"its device is {device!r}")
            continue
        for key in NEEDED.get(device, ("runner",)):
            if not subgraph.has_attr(key):
                yield Finding(label, "attributes", f"it has no attribute {key!r}")
                return
        if device == "DPU":
            yield from _program(subgraph, target)


def _program(subgraph: xir.Subgraph, target: Target) -> Iterator[Finding]:
    if subgraph.get_attr("dpu_fingerprint") != target.fingerprint:
        yield Finding(subgraph.get_name(), "fingerprint", f"it is not {target.fingerprint:#x}")
    sizes = subgraph.get_attr("reg_id_to_size")
    for op in subgraph.get_ops():
        tensor = op.get_output_tensor()
        if not tensor.has_attr("location") or tensor.get_attr("location") != 1:
            continue
        if op.get_type() in ("const", "const-fix"):
            continue
        address, size = tensor.get_attr("ddr_addr"), sizes[f"REG_{tensor.get_attr('reg_id')}"]
        element = tensor.data_type.bit_width // 8
        end = address + element
        if tensor.has_attr("stride"):
            steps = tensor.get_attr("stride")
            end += element * sum((d - 1) * s for d, s in zip(tensor.dims, steps, strict=True))
        if address < 0 or end > size:
            yield Finding(
                op.get_name(), "inside-segment",
                f"bytes {address}..{end} of REG_{tensor.get_attr('reg_id')}, which has {size}",
            )  # fmt: skip
