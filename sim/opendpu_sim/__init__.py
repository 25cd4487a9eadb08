# SPDX-License-Identifier: Apache-2.0
"""Devices that need no board: functional simulator and RTL in Verilator."""
