# SPDX-License-Identifier: Apache-2.0
"""Ops of XIR's library whose definition says too little to compute them."""

from opendpu.ops.operator import Operator, register

NO_DEFINITION = (
    "XIR says nothing of the order of displacements and of what is beside the map, so that no "
    "result could be right; pad, strided_slice and mul or concat, one for each displacement, "
    "would lift it"
)

register(
    *(
        Operator(kind=kind, lift=NO_DEFINITION)
        for kind in ("correlation1d_elemwise", "correlation2d_elemwise", "cost_volume")
    )
)
