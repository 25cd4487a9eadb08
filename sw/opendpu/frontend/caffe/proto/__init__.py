# SPDX-License-Identifier: Apache-2.0
"""Messages of Caffe's networks, as far as the front end needs them."""

from typing import Any

from opendpu.frontend.caffe.proto.descriptor import FILE_DESCRIPTOR
from xir.proto.messages import messages

_MESSAGES = messages(FILE_DESCRIPTOR)

Net: Any = _MESSAGES["Net"]
Layer: Any = _MESSAGES["Layer"]
Blob: Any = _MESSAGES["Blob"]
