# SPDX-License-Identifier: Apache-2.0
"""From a float draft and its positions to the quantized graph, as AMD's quantizers write it."""

from collections.abc import Mapping

import numpy as np

from opendpu.ir import Draft


def insert(draft: Draft, positions: Mapping[str, int]) -> Draft:
    """Return a draft with a ``fix`` behind every node that has a position.

    The op is called ``<node>_fix`` and has 8 signed bits and ``DPU_ROUND``; constants in front
    of one hold values that are already on its grid.
    """
    result = Draft(draft.name)
    result.attrs = dict(draft.attrs)
    behind: dict[str, str] = {}
    for node in draft:
        inputs = {arg: [behind[n] for n in names] for arg, names in node.inputs.items()}
        value = node.value
        position = positions.get(node.name)
        if value is not None and position is not None:
            integers = np.clip(np.floor(value * 2.0**position + 0.5), -128, 127)
            value = (integers * 2.0**-position).astype(np.float32)
        result.add(node.name, node.kind, node.shape, inputs, node.attrs, value)
        behind[node.name] = node.name
        if position is not None:
            attrs = {
                "bit_width": 8,
                "fix_point": position,
                "if_signed": True,
                "round_mode": "DPU_ROUND",
            }
            name = result.unique(f"{node.name}_fix")
            result.add(name, "fix", node.shape, {"input": [node.name]}, attrs)
            behind[node.name] = name
    result.outputs = [behind[name] for name in draft.outputs]
    return result
