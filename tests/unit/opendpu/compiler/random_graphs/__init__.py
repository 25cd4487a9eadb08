# SPDX-License-Identifier: Apache-2.0
"""Random quantized graphs over the compiler's operators, and what is checked about them."""

from random_graphs import functions, layers, moves, pointwise, products
from random_graphs.grower import GROWTHS, Grower, draw

__all__ = ["GROWTHS", "Grower", "draw", "functions", "layers", "moves", "pointwise", "products"]
