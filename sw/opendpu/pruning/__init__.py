# SPDX-License-Identifier: Apache-2.0
"""Choosing what is pruned: groups of channels, analyses, widths and specifications.

No framework is needed here. :mod:`opendpu.optimize` prunes networks of PyTorch with it,
``tf_nndct`` those of Keras, ``tf1_nndct`` graphs of TensorFlow 1.
"""

from opendpu.pruning.allocate import allocate, tolerated
from opendpu.pruning.analysis import Analysis, tasks_of
from opendpu.pruning.objective import Objective
from opendpu.pruning.plan import Plan
from opendpu.pruning.score import score_of
from opendpu.pruning.structure import IN, OUT, Dependencies, Group, Member

__all__ = [
    "IN", "OUT", "Analysis", "Dependencies", "Group", "Member", "Objective", "Plan", "allocate",
    "score_of", "tasks_of", "tolerated",
]  # fmt: skip
