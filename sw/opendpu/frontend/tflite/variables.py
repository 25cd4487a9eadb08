# SPDX-License-Identifier: Apache-2.0
"""Variables of streaming networks: what a call leaves for the next one goes in and out."""

import dataclasses

import tflite

from opendpu.frontend.tflite.file import File, Operator
from opendpu_arch.errors import ModelFormatError

HANDLE = "VAR_HANDLE"


def stateless(label: str, file: File) -> File:
    """Return a file whose variables are inputs and outputs.

    What is read of a variable becomes an input with the variable's name, behind the file's own;
    what it holds in the end becomes an output, in the same order. The operators that give variables
    their first values are left out: the caller gives those.

    Raises
    ------
    ModelFormatError
        An operator uses a variable that none has named. ``label`` is the file in the message.
    """
    if not any(operator.kind == HANDLE for operator in file.operators):
        return file
    walk = _Walk(label, file)
    operators = [kept for operator in file.operators for kept in walk.take(operator)]
    tensors = list(file.tensors)
    for name, index in walk.read.items():
        tensors[index] = dataclasses.replace(tensors[index], name=name)
    order = dict.fromkeys((*walk.read, *walk.assigned))
    last = [walk.assigned[name] for name in order if name in walk.assigned]
    outputs = [walk.alias.get(index, index) for index in (*file.outputs, *last)]
    return dataclasses.replace(
        file, tensors=tensors, operators=operators, outputs=tuple(outputs),
        inputs=(*file.inputs, *walk.read.values()),
    )  # fmt: skip


class _Walk:
    """Goes over the operators in order and knows what every variable holds."""

    def __init__(self, label: str, file: File) -> None:
        self.label, self.file = label, file
        self.names: dict[int, str] = {}
        """Of variables, by the tensor of their handle."""
        self.read: dict[str, int] = {}
        """Tensors that hold what variables held before the call."""
        self.assigned: dict[str, int] = {}
        self.alias: dict[int, int] = {}
        """Tensors that are others."""

    def take(self, operator: Operator) -> list[Operator]:
        """Return an operator as it is without variables; none if it is about them."""
        inputs = tuple(self.alias.get(index, index) for index in operator.inputs)
        match operator.kind:
            case "CALL_ONCE":
                return []
            case "VAR_HANDLE":
                shared = operator.options(tflite.VarHandleOptions).SharedName()
                own = self.file.tensors[operator.outputs[0]].name
                self.names[operator.outputs[0]] = shared.decode() if shared else own
                return []
            case "READ_VARIABLE":
                name, (made,) = self._name(inputs), operator.outputs
                if name not in self.assigned:
                    self.read.setdefault(name, made)
                held = self.assigned.get(name, self.read.get(name, made))
                if held != made:
                    self.alias[made] = held
                return []
            case "ASSIGN_VARIABLE":
                self.assigned[self._name(inputs)] = inputs[1]
                return []
        return [dataclasses.replace(operator, inputs=inputs)]

    def _name(self, inputs: tuple[int, ...]) -> str:
        if not inputs or inputs[0] not in self.names:
            raise ModelFormatError(f"{self.label}: a variable is used that no {HANDLE} has named")
        return self.names[inputs[0]]
