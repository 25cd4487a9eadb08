# SPDX-License-Identifier: Apache-2.0
"""Ops on the CPU: numpy functions by XIR op type, to which users can add their own."""

from opendpu.runtime.cpu import elementwise, fixed, layout, spatial
from opendpu.runtime.cpu.registry import (
    Implementation,
    evaluate,
    find,
    register,
    register_class,
    registered,
    unregister,
)

__all__ = [
    "Implementation",
    "elementwise",
    "evaluate",
    "find",
    "fixed",
    "layout",
    "register",
    "register_class",
    "registered",
    "spatial",
    "unregister",
]
