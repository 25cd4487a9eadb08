# SPDX-License-Identifier: Apache-2.0
"""Lets the tests of this folder import the drawers of graphs that other folders hold."""

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
for folder in ("compiler", "quantize"):
    sys.path.append(str(HERE.parent / folder))
