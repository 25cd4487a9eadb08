# SPDX-License-Identifier: Apache-2.0
"""Ops on the CPU: numpy functions by XIR op type, to which users can add their own."""

from opendpu.runtime.cpu import elementwise, fixed, layout, spatial
from opendpu.runtime.cpu.island import Island, evaluate
from opendpu.runtime.cpu.registry import (
    Implementation,
    register,
    register_class,
    register_library,
    registered,
    unregister,
)

__all__ = [
    "Implementation",
    "Island",
    "elementwise",
    "evaluate",
    "fixed",
    "layout",
    "register",
    "register_class",
    "register_library",
    "registered",
    "spatial",
    "unregister",
]
