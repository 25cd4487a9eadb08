# SPDX-License-Identifier: Apache-2.0
"""Protobuf messages of the ``.xmodel`` container, built from ``xmodel.proto``.

The messages live in a descriptor pool of their own, so AMD's ``xir`` can be loaded beside them,
and any protobuf release can build them: there is no generated code that must match its runtime.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from xir.proto.descriptor import FILE_DESCRIPTOR


def _build() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(bytes.fromhex(FILE_DESCRIPTOR))
    for file in files.file:
        pool.Add(file)
    return {
        name: message_factory.GetMessageClass(descriptor)
        for file in files.file
        for name, descriptor in pool.FindFileByName(file.name).message_types_by_name.items()
    }


_MESSAGES = _build()

AttrDef: Any = _MESSAGES["AttrDef"]
AttrValue: Any = _MESSAGES["AttrValue"]
Graph: Any = _MESSAGES["Graph"]
OPNode: Any = _MESSAGES["OPNode"]
OpArg: Any = _MESSAGES["OpArg"]
OpArgDef: Any = _MESSAGES["OpArgDef"]
OpDef: Any = _MESSAGES["OpDef"]
SubGraph: Any = _MESSAGES["SubGraph"]
Tensor: Any = _MESSAGES["Tensor"]
