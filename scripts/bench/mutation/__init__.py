# SPDX-License-Identifier: Apache-2.0
"""Small faults, and which tests find them: the parts of ``mutants.py``."""

from mutation import arch, hw, scaled, sim, sw
from mutation.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *arch.MUTANTS, *hw.MUTANTS, *sim.MUTANTS, *sw.MUTANTS, *scaled.MUTANTS,
)  # fmt: skip
"""Every mutant, by package."""
