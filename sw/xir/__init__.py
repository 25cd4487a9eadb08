# SPDX-License-Identifier: Apache-2.0
"""XIR: the intermediate representation in ``.xmodel`` files, with the interface of AMD's PyXIR.

A :class:`Graph` holds ops; every op produces one :class:`Tensor`; a tree of :class:`Subgraph`
says which device runs which ops. Everything carries typed attributes.

Op types of one's own
---------------------
``Graph.create_op`` takes any type. One outside the library has any number of inputs, of any
element type, all in the argument ``input`` and in order; the attributes ``shape`` and
``data_type`` give its result. This is what AMD's reader makes up for a type it does not know, so
it opens such files. Further attributes may have any wire type, ``bytes`` among them (a serialized
model, say). :func:`register_op` gives them types and defaults::

    xir.register_op(
        xir.custom_op("mine", [xir.AttrDef("model", xir.Occurrence.REQUIRED, "bytes", 0, b"")])
    )
    graph.create_op(
        "op", "mine", {"shape": [1, 4], "data_type": "INT64", "model": b"..."}, {"input": [a, b]}
    )

Element types are ``INT8`` to ``INT64``, ``UINT8`` to ``UINT64``, ``FLOAT16`` to ``FLOAT64``. XIR
has no boolean: a boolean tensor is ``UINT8`` with values 0 and 1, a byte each, as numpy and ONNX
Runtime keep it, and an attribute has to tell the two apart. A ``shape`` needs at least one
dimension, so a scalar is ``[1]``, and AMD's reader accepts only positive ones. Netron shows
attributes of all scalar types and lists of them, but neither maps nor lists of booleans, bytes or
64-bit integers: with one of those on an op it does not open the file.
"""

from opendpu_arch.extras import needs

with needs("xir"):
    import google.protobuf.message  # noqa: F401

from xir.datatype import DataKind, DataType
from xir.graph import Graph
from xir.op import Op, Tensor
from xir.oplib import ArgDef, AttrDef, Occurrence, OpDef, builtin
from xir.oplib import custom as custom_op
from xir.oplib import register as register_op
from xir.subgraph import Subgraph
from xir.template import GraphTemplate, OpTemplate

__all__ = [
    "ArgDef",
    "AttrDef",
    "DataKind",
    "DataType",
    "Graph",
    "GraphTemplate",
    "Occurrence",
    "Op",
    "OpDef",
    "OpTemplate",
    "Subgraph",
    "Tensor",
    "builtin",
    "custom_op",
    "register_op",
]
