# SPDX-License-Identifier: Apache-2.0
"""``python -m vaitrace``."""

from opendpu.cli.entries import vaitrace

if __name__ == "__main__":
    vaitrace()
