# SPDX-License-Identifier: Apache-2.0
"""Lets the tests of this folder import the helpers beside them, and those of the compiler's."""

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "compiler")]
