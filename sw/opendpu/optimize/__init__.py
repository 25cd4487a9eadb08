# SPDX-License-Identifier: Apache-2.0
"""The optimizer: networks with fewer channels, chosen so that accuracy stays.

Channels that depend on each other are found by tracing (``groups``, ``equivalence``); what is
there to be less of is multiply-accumulates, parameters or cycles of a target (``objective``,
``cycles``); what can go is told by an analysis of single groups (``sensitivity``, ``allocate``) or
by trying networks (``search``). Needs the extra ``opendpu[optimizer]``.
"""

from opendpu_arch.extras import needs

with needs("the optimizer", "optimizer"):
    import torch  # noqa: F401
    import torch_pruning  # noqa: F401

from opendpu.optimize.groups import analyze
from opendpu.optimize.objective import OBJECTIVES, objective_of
from opendpu.optimize.pruner import Pruner
from opendpu.optimize.search import Subnets
from opendpu.pruning.analysis import Analysis
from opendpu.pruning.objective import Objective
from opendpu.pruning.plan import Plan
from opendpu.pruning.structure import Dependencies, Group

__all__ = [
    "OBJECTIVES", "Analysis", "Dependencies", "Group", "Objective", "Plan", "Pruner", "Subnets",
    "analyze", "objective_of",
]  # fmt: skip
