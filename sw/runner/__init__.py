# SPDX-License-Identifier: Apache-2.0
"""Runners as programs for Vitis AI 1.2 make them; :mod:`vart` since.

>>> dpu = runner.Runner(subgraph, "run")
"""

from vart import Runner as _Runner

__all__ = ["Runner"]

Runner = _Runner.create_runner
