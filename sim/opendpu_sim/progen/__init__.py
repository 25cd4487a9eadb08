# SPDX-License-Identifier: Apache-2.0
"""Random programs, legal, small and nasty, to compare the gateware and the model on."""

from opendpu_sim.progen.generate import ENGINES, random_program

__all__ = ["ENGINES", "random_program"]
