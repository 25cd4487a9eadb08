# SPDX-License-Identifier: Apache-2.0
"""Lets the tests of this folder import the helpers beside them."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent))
