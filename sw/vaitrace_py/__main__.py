# SPDX-License-Identifier: Apache-2.0
"""``python -m vaitrace_py``."""

import sys

from vaitrace.main import main

if __name__ == "__main__":
    sys.argv.insert(1, "-p")
    main()
