# SPDX-License-Identifier: Apache-2.0
"""Element-wise ops, and activations that stand alone."""

from opendpu.compiler.legalize.context import feature_shape
from opendpu.compiler.legalize.registry import Call, legalizes


@legalizes("add")
def add(call: Call) -> str | None:
    """Make an addition of feature maps of one shape."""
    context = call.context
    fours = [context.view(s, feature_shape(context.result[s].shape)) for s in call.sources]
    shape = feature_shape(call.node.shape)
    if any(context.result[s].shape != shape for s in fours):
        return None
    attrs = {"type": "ADD", "nonlinear": call.nonlinear}
    return context.add(call.node, call.fix, "eltwise-fix", {"input": fours}, attrs, shape=shape)


@legalizes("relu")
def relu(call: Call) -> str:
    """Make an addition of one term."""
    return call.context.copy(call.sources[0], call.node, call.fix, "RELU")
