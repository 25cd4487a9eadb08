# SPDX-License-Identifier: Apache-2.0
"""Normalization by values of the same image."""

from opendpu.frontend.context import Call
from opendpu.frontend.ops.registry import Layout, handles


@handles("LRN", layout=Layout.SPATIAL)
def local_response(call: Call) -> None:
    """Convert to the op type ``lrn``, which XIR's library lacks; it runs on the CPU."""
    rank = len(call.value(0).shape)
    node, shape = call.feature_map()
    attrs = {
        "size": int(call.attrs["size"]),
        "alpha": float(call.attrs.get("alpha", 1e-4)),
        "beta": float(call.attrs.get("beta", 0.75)),
        "bias": float(call.attrs.get("bias", 1.0)),
    }
    call.set_feature_map(
        call.context.emit(call.output, "lrn", shape, {"input": [node]}, attrs), rank
    )
