# SPDX-License-Identifier: Apache-2.0
"""What passes made, as files: text and pictures of everything, ``.xmodel`` of graphs."""

from opendpu.compiler.dump.dumper import Dumper

__all__ = ["Dumper"]
