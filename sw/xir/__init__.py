# SPDX-License-Identifier: Apache-2.0
"""XIR: the intermediate representation in ``.xmodel`` files, with the interface of AMD's PyXIR.

A :class:`Graph` holds ops; every op produces one :class:`Tensor`; a tree of :class:`Subgraph`
says which device runs which ops. Everything carries typed attributes.
"""

from xir.datatype import DataKind, DataType
from xir.graph import Graph
from xir.op import Op, Tensor
from xir.oplib import OpDef, builtin
from xir.subgraph import Subgraph

__all__ = ["DataKind", "DataType", "Graph", "Op", "OpDef", "Subgraph", "Tensor", "builtin"]
