# SPDX-License-Identifier: Apache-2.0
"""From a float draft and its positions to the quantized graph, as AMD's quantizers write it."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from opendpu.ir import Draft

Rounded = dict[tuple[str, int], npt.NDArray[np.float32]]
"""Constants on their grid, by name and position."""


def insert(draft: Draft, positions: Mapping[str, int], rounded: Rounded | None = None) -> Draft:
    """Return a draft with a ``fix`` behind every node that has a position.

    The op is called ``<node>_fix`` and has 8 signed bits and ``DPU_ROUND``; constants in front
    of one hold values that are already on its grid. ``rounded`` keeps those of earlier calls.
    """
    known: Rounded = {} if rounded is None else rounded
    result = Draft(draft.name)
    result.attrs = dict(draft.attrs)
    behind: dict[str, str] = {}
    for node in draft:
        inputs = {arg: [behind[n] for n in names] for arg, names in node.inputs.items()}
        value = node.value
        position = positions.get(node.name)
        if value is not None and position is not None:
            if (node.name, position) not in known:
                scale = np.float32(2.0**position)
                integers = np.floor(value * scale + np.float32(0.5))
                known[node.name, position] = np.clip(integers, -128, 127) / scale
            value = known[node.name, position]
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
