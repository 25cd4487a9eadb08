# SPDX-License-Identifier: Apache-2.0
"""Working form of XIR graphs that the front ends and the quantizer edit."""

from opendpu.ir.draft import Draft, Node

__all__ = ["Draft", "Node"]
