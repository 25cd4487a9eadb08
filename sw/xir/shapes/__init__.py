# SPDX-License-Identifier: Apache-2.0
"""Shapes of results: a rule for each op type, by family, and :func:`infer` over them."""

from xir.shapes.infer import infer

__all__ = ["infer"]
