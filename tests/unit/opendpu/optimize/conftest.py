# SPDX-License-Identifier: Apache-2.0
"""Lets tests import the networks beside them; a random seed that the output shows."""

import sys
from pathlib import Path

from frameworks.torch_fixtures import one_thread as one_thread
from frameworks.torch_fixtures import seed as seed

sys.path.append(str(Path(__file__).parent))
