# SPDX-License-Identifier: Apache-2.0
"""Pictures without a drawing program: a canvas that becomes SVG or PNG, and layered graphs."""

from opendpu.drawing.canvas import Canvas
from opendpu.drawing.layered import Vertex, draw_layered

__all__ = ["Canvas", "Vertex", "draw_layered"]
