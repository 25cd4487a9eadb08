# SPDX-License-Identifier: Apache-2.0
"""DPUs in FPGAs: a device that drives one through registers, shared memory and an interrupt."""

from opendpu.runtime.board.device import BoardDevice, LitexDevice

__all__ = ["BoardDevice", "LitexDevice"]
