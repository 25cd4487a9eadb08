# SPDX-License-Identifier: Apache-2.0
"""Small clean-ups of a freshly converted draft."""

from opendpu.ir import Draft, Node

__all__ = ["Draft", "tidy"]

_PADDED = ("conv2d", "depthwise-conv2d")


def tidy(draft: Draft) -> None:
    """Merge zero padding into convolutions and chains of reshapes; drop what nobody uses."""
    draft.prune()
    draft.sort()
    for node in draft:
        if node.kind in _PADDED:
            _merge_pad(draft, node)
        elif node.kind == "reshape":
            _merge_reshape(draft, node)
    draft.prune()


def _merge_pad(draft: Draft, node: Node) -> None:
    pad = draft[node.inputs["input"][0]]
    if pad.kind != "pad" or pad.attrs["mode"] != "CONSTANT":
        return
    paddings = pad.attrs["paddings"]
    if any(pad.attrs["constant_values"]) or any(paddings[:2]) or any(paddings[6:]):
        return
    top, bottom, left, right = paddings[2:6]
    old = node.attrs["pad"]
    node.attrs["pad"] = [old[0] + left, old[1] + right, old[2] + top, old[3] + bottom]
    node.inputs["input"] = list(pad.inputs["input"])


def _merge_reshape(draft: Draft, node: Node) -> None:
    before = draft[node.inputs["input"][0]]
    if before.kind == "reshape" and before.name not in draft.outputs:
        node.inputs["input"] = list(before.inputs["input"])
    source = node.inputs["input"][0]
    if draft[source].shape == node.shape and node.name not in draft.outputs:
        draft.replace(node.name, source)
