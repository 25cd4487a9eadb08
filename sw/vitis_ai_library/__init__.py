# SPDX-License-Identifier: Apache-2.0
"""Vitis AI's graph runner: whole graphs, custom ops among them, with AMD's Python interface."""

from vitis_ai_library.graph_runner import GraphRunner

__all__ = ["GraphRunner"]
