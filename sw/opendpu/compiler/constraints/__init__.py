# SPDX-License-Identifier: Apache-2.0
"""What the DPU cannot do: one named predicate each, with the text users see.

A predicate gets a node of a fixed-point graph, the graph and the target, and returns why the node
must run on the CPU, or nothing. Limits are those of the target. Inspector, compiler report and
documentation read :data:`CONSTRAINTS`. The order of the imports is the order of the checks.
"""

# isort: off
from opendpu.compiler.constraints import tensors
from opendpu.compiler.constraints import layers
from opendpu.compiler.constraints import product
from opendpu.compiler.constraints import transposed
from opendpu.compiler.constraints import pool
from opendpu.compiler.constraints import eltwise
from opendpu.compiler.constraints import pointwise
from opendpu.compiler.constraints import move
from opendpu.compiler.constraints import scaled

# isort: on
from opendpu.compiler.constraints.reasons import first_broken, reason
from opendpu.compiler.constraints.registry import CONSTRAINTS, Constraint, constraint, extent
from opendpu.compiler.constraints.transposed import before

__all__ = [
    "CONSTRAINTS",
    "Constraint",
    "before",
    "constraint",
    "eltwise",
    "extent",
    "first_broken",
    "layers",
    "move",
    "pointwise",
    "pool",
    "product",
    "reason",
    "scaled",
    "tensors",
    "transposed",
]
