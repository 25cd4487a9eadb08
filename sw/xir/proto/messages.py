# SPDX-License-Identifier: Apache-2.0
"""Message classes from a compiled ``.proto``, in a descriptor pool of their own.

So other software's messages of the same name can be loaded beside them, and any protobuf release
can build them: there is no generated code that must match its runtime.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def messages(descriptor: str) -> dict[str, Any]:
    """Return message classes by name; ``descriptor`` is a FileDescriptorSet in hexadecimal."""
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(bytes.fromhex(descriptor))
    for file in files.file:
        pool.Add(file)
    return {
        name: message_factory.GetMessageClass(found)
        for file in files.file
        for name, found in pool.FindFileByName(file.name).message_types_by_name.items()
    }
