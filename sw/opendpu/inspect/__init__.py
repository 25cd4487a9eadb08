# SPDX-License-Identifier: Apache-2.0
"""The Inspector: which operator of a network goes where on a target, and why, without data.

It asks the compiler itself: the same passes, constraints and costs as when compiling. Only the
scales are assumed.
"""

from opendpu.inspect.compiled import inspect_compiled
from opendpu.inspect.files import FORMATS, check_format, write_files
from opendpu.inspect.inspector import inspect_graph
from opendpu.inspect.result import InspectedNode, Inspection
from opendpu.inspect.text import report

__all__ = [
    "FORMATS",
    "InspectedNode",
    "Inspection",
    "check_format",
    "inspect_compiled",
    "inspect_graph",
    "report",
    "write_files",
]
