# SPDX-License-Identifier: Apache-2.0
"""Applies the rules of a value's kind when a pass has made it."""

import xir
from opendpu.compiler.network import Network
from opendpu.compiler.partition import Partitioned
from opendpu.compiler.plan import Plan
from opendpu.compiler.planner.proposal import Proposal, Residency, Tiled
from opendpu.compiler.program import CommandStream, Program
from opendpu.compiler.verify.compiled import compiled_rules
from opendpu.compiler.verify.graph import fixed_rules, partition_rules, quantized_rules
from opendpu.compiler.verify.network import network_rules
from opendpu.compiler.verify.plan import command_rules, plan_rules
from opendpu.compiler.verify.planner import proposal_rules, residency_rules, tiled_rules
from opendpu.compiler.verify.program import verify
from opendpu.compiler.verify.rules import Rules
from opendpu.ir import Graph
from opendpu_arch.errors import DPUError, PassError
from opendpu_arch.target import Target


class Verifier:
    """Raises where the result of a pass breaks a rule of its kind; a watcher of compilations.

    Parameters
    ----------
    target
        What the programs are for.
    """

    def __init__(self, target: Target) -> None:
        self.target = target

    def __call__(self, name: str, value: object) -> None:
        """Check what pass ``name`` has made.

        Raises
        ------
        PassError
            It breaks a rule: always a bug of the compiler, never of a model.
        """
        if isinstance(value, Program):
            self._program(name, value)
            return
        found = _rules(name, value)
        if found is None:
            raise PassError(f"pass {name!r} made a {type(value).__name__}, which has no verifier")
        rules, code = found
        for finding in rules(value, self.target):
            raise PassError(
                f"after pass {name!r}: {finding.op!r} breaks the rule {finding.rule!r}: "
                f"{finding.text}",
                code=code,
            )

    def _program(self, name: str, program: Program) -> None:
        try:
            verify(program, self.target)
        except DPUError as error:
            raise PassError(
                f"after pass {name!r}: the program breaks the rule {type(error).__name__}: {error}",
                code="XCOM_ACGEN_ERROR",
            ) from error


def _rules(name: str, value: object) -> tuple[Rules, str] | None:
    """Return the rules for a value, and the code of the guide for breaking them."""
    match value:
        case Graph():
            return (quantized_rules if name == "fold" else fixed_rules), "XCOM_INVALID_GRAPH"
        case Partitioned():
            return partition_rules, "XCOM_UNACCEPTABLE_SUBGRAPH"
        case Network():
            return network_rules, "XCOM_VALUE_UNMATCH"
        case Proposal():
            return proposal_rules, "XCOM_TILING_SIZE_ERROR"
        case Residency():
            return residency_rules, "XCOM_TILING_SIZE_ERROR"
        case Tiled():
            return tiled_rules, "XCOM_TILING_SIZE_ERROR"
        case Plan():
            return plan_rules, "XCOM_DDR_ADDR_ASSIGNMENT_FAILED"
        case CommandStream():
            return command_rules, "XCOM_ACGEN_ERROR"
        case xir.Graph():
            return compiled_rules, "XCOM_INVALID_GRAPH"
        case _:
            return None
