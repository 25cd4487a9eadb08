# SPDX-License-Identifier: Apache-2.0
"""Lets the tests import the networks that exporters are tested with."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "opendpu" / "export"))
