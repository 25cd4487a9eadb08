# SPDX-License-Identifier: Apache-2.0
"""``python -m opendpu.cli``."""

from opendpu.cli.entries import opendpu

opendpu()
