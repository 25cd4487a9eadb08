# SPDX-License-Identifier: Apache-2.0
"""``xdputil``: the board tool of Vitis AI, on simulated DPUs."""

from xdputil.main import main

__all__ = ["main"]
