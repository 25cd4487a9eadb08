# SPDX-License-Identifier: Apache-2.0
"""``python -m vaitrace``."""

from vaitrace.main import main

if __name__ == "__main__":
    main()
