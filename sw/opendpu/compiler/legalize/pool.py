# SPDX-License-Identifier: Apache-2.0
"""Pooling."""

from opendpu.compiler.legalize.refusal import Refusal
from opendpu.compiler.legalize.registry import Call, legalizes
from opendpu.compiler.legalize.window import explicit_pad


@legalizes("maxpool2d", "avgpool2d")
def pool(call: Call) -> str:
    """Make ``pool-fix``; the engine's average counts the padding."""
    node, shape = call.node, call.shape()
    kernel, stride = list(node.attrs["kernel"]), list(node.attrs["stride"])
    pad = explicit_pad(node, shape)
    if node.attrs.get("global"):
        kernel = stride = [shape[2], shape[1]]
        pad = [0, 0, 0, 0]
    average = node.kind == "avgpool2d"
    if average and any(pad) and not node.attrs.get("count_include_pad", True):
        raise Refusal(
            "DPU only supports averages that count the padding, but here count_include_pad is "
            "false; pooling without padding would lift it",
            "XCOM_UNIMPLEMENT",
        )
    attrs = {
        "kernel": kernel, "stride": stride, "pad": pad, "type": "AVG" if average else "MAX",
        "pad_mode": "FLOOR",
    }  # fmt: skip
    return call.context.add(node, call.fix, "pool-fix", {"input": call.sources[:1]}, attrs)
