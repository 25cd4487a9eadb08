# SPDX-License-Identifier: Apache-2.0
"""What a compiled DPU subgraph says about its instructions: the layer that each is for.

These attributes are ours alone; AMD's tools ignore them.
"""

from collections.abc import Mapping, Sequence

LAYERS = "opendpu_layers"
"""Names of the layers: ops of the subgraph."""
LAYER_OF = "opendpu_layer_of_instruction"
"""Number of the layer of every instruction, -1 for none."""


def layer_attributes(
    layers: Sequence[str], origins: Mapping[str, str], ops: Mapping[str, str]
) -> Mapping[str, list[str] | list[int]]:
    """Return the attributes for instructions of these layers, empty for none.

    ``origins`` has the node of the graph that each layer was lowered from, ``ops`` the names of the
    ops that nodes have become.
    """
    owners = {name: ops.get(origins.get(name, name), name) for name in dict.fromkeys(layers)}
    names = list(dict.fromkeys(name for name in owners.values() if name))
    place = {name: number for number, name in enumerate(names)}
    return {LAYERS: names, LAYER_OF: [place.get(owners[layer], -1) for layer in layers]}
