# SPDX-License-Identifier: Apache-2.0
"""VART in C++: headers with AMD's classes, and a library that runs what this package runs.

The library embeds Python, so that there is one runtime; it is built with the host's compiler when
it is first asked for. See ``docs/cpp.md``.
"""

from opendpu.cpp.build import compiler, install, prefix

__all__ = ["compiler", "install", "prefix"]
