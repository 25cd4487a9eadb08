# SPDX-License-Identifier: Apache-2.0
"""Faults of the software: files, front end, quantizer, compiler, runtime."""

from mutation.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = ()
