# SPDX-License-Identifier: Apache-2.0
"""Where the tests find their modules."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # lets tests import the helpers beside them
