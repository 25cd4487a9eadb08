# SPDX-License-Identifier: Apache-2.0
"""A traced module as a Python program, in which people read the names of layers."""

import re
from collections.abc import Mapping

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from opendpu.frontend.pytorch.naming import Place
from pytorch_nndct.layer_names import layer_name

_ASSIGNED = re.compile(r"^ {4}(?P<name>\w+) = ")

HEAD = '''"""{name} as vai_q_pytorch's interface of OpenDPU has traced it.

Behind every operation is the name of its layer, for "layer_name" of a quantization configuration.
The tensors are those of the module's state_dict().
"""

import torch
from torch import device, inf, nan


class {name}(torch.nn.Module):
    """The traced module, in evaluation mode."""

    def __init__(self, tensors):
        super().__init__()
        self.tensors = tensors

    def forward(self, {arguments}):
'''


def source_code(name: str, program: ExportedProgram) -> str:
    """Return a program with a class ``name``, which is called with tensors only.

    Its results are a flat tuple.
    """
    graph_module = program.graph_module
    users, held = [], []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            users.append(str(spec.arg.name))
        else:
            held.append(f"        {spec.arg.name} = self.tensors[{spec.target!r}]\n")
    places = {node.name: place for node in graph_module.graph.nodes if (place := _place(node))}
    body = graph_module.code.split("):\n", 1)[1]
    lines = []
    for line in body.splitlines():
        if not line.strip():
            continue
        text = re.sub(r";  [\w =]+ = None$", "", line)
        found = _ASSIGNED.match(text)
        if found and found["name"] in places:
            text = f"{text}  # {layer_name(name, places[found['name']])}"
        lines.append(f"    {text}\n")
    return "".join([HEAD.format(name=name, arguments=", ".join(users)), *held, *lines])


def _place(node: torch.fx.Node) -> Place | None:
    """Return where the op of a traced graph is called."""
    stack: Mapping[str, tuple[str, object]] = node.meta.get("nn_module_stack") or {}
    if node.op != "call_function" or not stack:
        return None
    classes = tuple(getattr(kind, "__name__", str(kind)) for _, kind in stack.values())
    path = [path for path, _ in stack.values()][-1]
    return Place(path, node.name, classes, str(node.target), "")
