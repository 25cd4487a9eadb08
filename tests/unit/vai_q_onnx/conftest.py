# SPDX-License-Identifier: Apache-2.0
"""Where the networks are that tests of the export quantize too."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "opendpu" / "export"))
