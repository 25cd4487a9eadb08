# SPDX-License-Identifier: Apache-2.0
"""``python -m opendpu``: the command ``opendpu``, where its script is not on the path."""

from opendpu.cli.entries import opendpu

if __name__ == "__main__":
    opendpu()
