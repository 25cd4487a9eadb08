# SPDX-License-Identifier: Apache-2.0
"""Lets the tests of this folder import ``scripts/synth``."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "scripts" / "synth"))
