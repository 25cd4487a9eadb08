# SPDX-License-Identifier: Apache-2.0
"""Lets the tests of this folder import what provokes codes, and drawers of other folders."""

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
for folder in (HERE, HERE.parent / "opendpu" / "compiler"):
    sys.path.append(str(folder))
