# SPDX-License-Identifier: Apache-2.0
"""For every code that OpenDPU gives, a call that gives it."""

# isort: off
from provocations.registry import PROVOCATIONS
from provocations import compiler, runtime, targets, xir_graphs  # register themselves
# isort: on

__all__ = ["PROVOCATIONS", "compiler", "runtime", "targets", "xir_graphs"]
