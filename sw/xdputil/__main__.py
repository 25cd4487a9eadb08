# SPDX-License-Identifier: Apache-2.0
"""``python -m xdputil``."""

from xdputil.main import main

if __name__ == "__main__":
    main()
