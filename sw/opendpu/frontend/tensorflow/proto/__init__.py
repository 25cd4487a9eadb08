# SPDX-License-Identifier: Apache-2.0
"""Messages of TensorFlow's GraphDef, as far as front end and quantizer need them."""

from typing import Any

from opendpu.frontend.tensorflow.proto.descriptor import FILE_DESCRIPTOR
from xir.proto.messages import messages

_MESSAGES = messages(FILE_DESCRIPTOR)

Graph: Any = _MESSAGES["Graph"]
Node: Any = _MESSAGES["Node"]
Attr: Any = _MESSAGES["Attr"]
Tensor: Any = _MESSAGES["Tensor"]
