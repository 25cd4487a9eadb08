# SPDX-License-Identifier: Apache-2.0
"""Why an op is on the CPU, taken apart: what is required, what it breaks, what would lift that."""

import dataclasses
import re

from opendpu.compiler.constraints import first_broken
from opendpu.compiler.fixed import COMPUTE, MOVE, is_fixed
from opendpu.compiler.partition import Partitioned
from opendpu.ir import Node
from opendpu_arch.target import Target

_REASON = re.compile(
    r"(?P<message>.*?)(?:[;:] (?P<lift>[^;:]*?) (?:would lift|lifts) it)?"
    r"(?: \((?P<code>XCOM_\w+)\))?",
    re.DOTALL,
)
"""The form of reasons everywhere in the compiler: "...; X would lift it (CODE)"."""
FIX_POINT = '"fix_point"('
"""How reasons of legalization name a scale that is at fault."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A reason, with the constraint that it comes from where it is one of the compiler's list."""

    constraint: str
    message: str
    lift: str
    code: str
    of_scales: bool


def verdict(node: Node, value: Partitioned, target: Target) -> Verdict:
    """Return why a node of a partition, one with a reason, is on the CPU."""
    text = value.partition.reasons[node.name]
    match = _REASON.fullmatch(text)
    assert match is not None, text
    message, lift, code = match["message"], match["lift"] or "", match["code"] or ""
    checked = not node.reason and is_fixed(node) and node.kind in (*COMPUTE, *MOVE)
    broken = first_broken(node, value.graph, target) if checked else None
    if broken is None:
        return Verdict(message, message, lift, code, FIX_POINT in text)
    return Verdict(broken.text, message, lift, code, broken.scales)
