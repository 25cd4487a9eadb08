# SPDX-License-Identifier: Apache-2.0
"""Names of PyTorch's modules for the nodes and tensors of an ONNX model that torch.onnx made."""

import ast
import dataclasses
import itertools
import re

import torch
from onnxscript import ir

from opendpu.frontend.origins import STACK_TRACE, line_of_trace

SCOPES = "pkg.torch.onnx.name_scopes"
"""Metadata of a node: paths of the modules around it, outermost first, and the name of its op."""
CLASSES = "pkg.torch.onnx.class_hierarchy"
"""Their classes, and the ATen operator."""

_BUILTIN = re.compile(r"torch\.nn\.(?:modules\.\w+\.)?(?P<name>\w+)")
_ATEN = re.compile(r"(?:aten|prims)\.(?P<name>\w+?)_?(?:\.\w+)?")


@dataclasses.dataclass(frozen=True)
class Place:
    """Where an op is called.

    Parameters
    ----------
    path
        The module that calls it, ``layer1.0.conv1``; empty for the outermost.
    op
        Name of the op in the traced graph.
    classes
        Classes of the modules around it, outermost first.
    target
        The ATen operator.
    line
        Source line, ``net.py:12``.
    """

    path: str
    op: str
    classes: tuple[str, ...]
    target: str
    line: str

    @property
    def builtin(self) -> str | None:
        """The name of the module in ``torch.nn``, where it is one of these."""
        found = _BUILTIN.fullmatch(self.classes[-1]) if self.classes else None
        return found["name"] if found and hasattr(torch.nn, found["name"]) else None

    @property
    def function(self) -> str:
        """The ATen operator without overload, ``add``."""
        found = _ATEN.fullmatch(self.target)
        return found["name"] if found else self.target

    @property
    def kind(self) -> str:
        """What users know it as: ``torch.nn.Conv2d``, ``torch.add``."""
        return f"torch.nn.{self.builtin}" if self.builtin else f"torch.{self.function}"


def rename(model: ir.Model, prefix: str = "") -> dict[str, Place]:
    """Name nodes and results after the modules that make them; return where nodes come from.

    The result of a module of ``torch.nn`` has the module's path, ``layer1.0.conv1``; others have
    that of the module that calls them and the operator, ``layer1.0.add``. What an operator needs
    on the way has the name of ONNX's operator behind that. A single module of ``torch.nn`` has no
    path, and its result the operator's name. Where a module is called again, a number follows.
    Inputs keep their names. ``prefix`` is left out of paths.
    """
    taken = {str(value.name) for value in (*model.graph.inputs, *model.graph.initializers.values())}
    nodes = [(node, place) for node in model.graph if (place := place_of(node, prefix))]
    following = [place for _, place in nodes[1:]]
    places: dict[str, Place] = {}
    for (node, place), after in itertools.zip_longest(nodes, following):
        ends = after is None or after.path != place.path
        name = (
            place.path
            if place.path and place.builtin and ends
            else f"{place.path}.{place.function}"
        )
        if after is not None and (after.path, after.op) == (place.path, place.op):
            name = f"{place.path}.{place.function}.{node.op_type}"
        for number, value in enumerate(node.outputs):
            value.name = _unique(f"{name}.{number}" if number else name, taken)
        node.name = str(node.outputs[0].name)
        places[node.name] = place
    return places


def _unique(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, and take it."""
    name = name.lstrip(".")
    found, number = name, 0
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found


def _listed(text: str | None) -> list[str]:
    """Return the list of strings that metadata holds as Python source."""
    try:
        found = ast.literal_eval(text or "[]")
    except (SyntaxError, ValueError):
        return []
    return [str(item) for item in found] if isinstance(found, list) else []


def place_of(node: ir.Node, prefix: str = "") -> Place | None:
    """Return where the op behind a node is called; nothing where the exporter does not say."""
    scopes, classes = (_listed(node.metadata_props.get(key)) for key in (SCOPES, CLASSES))
    if len(scopes) < 2 or len(scopes) != len(classes):
        return None
    if prefix and len(scopes) > 2 and scopes[1] == prefix:
        scopes, classes = scopes[1:], classes[1:]
        scopes = [s.removeprefix(prefix).removeprefix(".") for s in scopes[:-1]] + scopes[-1:]
    line = line_of_trace(node.metadata_props.get(STACK_TRACE, ""))
    return Place(scopes[-2], scopes[-1], tuple(classes[:-1]), classes[-1], line)
