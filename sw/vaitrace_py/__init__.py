# SPDX-License-Identifier: Apache-2.0
"""``python3 -m vaitrace_py X.py ...``: ``vaitrace`` for a Python program; and its trace points."""

from vaitrace_py.tracepoint import vai_tracepoint

__all__ = ["vai_tracepoint"]
