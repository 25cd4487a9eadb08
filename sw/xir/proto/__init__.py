# SPDX-License-Identifier: Apache-2.0
"""Protobuf messages of the ``.xmodel`` container, built from ``xmodel.proto``.

The messages live in a descriptor pool of their own, so AMD's ``xir`` can be loaded beside them.
"""

from typing import Any

from xir.proto.descriptor import FILE_DESCRIPTOR
from xir.proto.messages import messages

_MESSAGES = messages(FILE_DESCRIPTOR)

AttrDef: Any = _MESSAGES["AttrDef"]
AttrValue: Any = _MESSAGES["AttrValue"]
Graph: Any = _MESSAGES["Graph"]
OPNode: Any = _MESSAGES["OPNode"]
OpArg: Any = _MESSAGES["OpArg"]
OpArgDef: Any = _MESSAGES["OpArgDef"]
OpDef: Any = _MESSAGES["OpDef"]
SubGraph: Any = _MESSAGES["SubGraph"]
Tensor: Any = _MESSAGES["Tensor"]
