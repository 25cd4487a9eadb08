# SPDX-License-Identifier: Apache-2.0
"""Compiling models, under the name that AMD's package has for it."""

from vitis_vai.graph import create_wego_graph
from vitis_vai.model import create_wego_model

__all__ = ["create_wego_graph", "create_wego_model"]
