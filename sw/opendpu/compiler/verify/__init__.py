# SPDX-License-Identifier: Apache-2.0
"""Checks between passes: every kind of value has rules that its maker must keep."""

from opendpu.compiler.verify.boundary import Verifier
from opendpu.compiler.verify.program import verify

__all__ = ["Verifier", "verify"]
