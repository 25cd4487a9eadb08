# SPDX-License-Identifier: Apache-2.0
"""What a compiled DPU subgraph says about its instructions: the layer that each is for.

These attributes are ours alone; AMD's tools ignore them.
"""

from collections.abc import Mapping, Sequence

LAYERS = "opendpu_layers"
"""Names of the layers: ops of the subgraph."""
LAYER_OF = "opendpu_layer_of_instruction"
"""Number of the layer of every instruction, -1 for none."""


def layer_attributes(names: Sequence[str]) -> Mapping[str, list[str] | list[int]]:
    """Return the attributes for instructions whose layers have these names, empty for none.

    What follows a slash in a name is a part of that layer.
    """
    owners = [name.split("/")[0] for name in names]
    layers = list(dict.fromkeys(name for name in owners if name))
    place = {name: number for number, name in enumerate(layers)}
    return {LAYERS: layers, LAYER_OF: [place.get(name, -1) for name in owners]}
