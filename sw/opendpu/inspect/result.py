# SPDX-License-Identifier: Apache-2.0
"""What an inspection finds: a device for every operator of the user's model, and why."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from opendpu_arch.target import Target

DPU, CPU, USER = "DPU", "CPU", "USER"


@dataclasses.dataclass(frozen=True, kw_only=True)
class InspectedNode:
    """One operator of the model, as its author knows it.

    Parameters
    ----------
    name, op_type
        Those of the model: node and operator of ONNX, module and function of PyTorch, op of XIR.
    inputs, outputs
        Operators before and behind it, by name.
    kinds
        The XIR ops that it is made of; none for what disappears when the model is read.
    shape
        Of its result; feature maps NHWC.
    attributes
        Those of its op, as XIR has them.
    device
        ``DPU``, ``CPU``, or ``USER`` for inputs.
    runs_in
        The operator that it becomes a part of, where it has no op of its own when compiled.
    constraint
        What the DPU, or the partition, requires and it breaks; nothing on the DPU.
    message
        What it breaks, with its numbers.
    lift
        What would lift that; nothing where nothing does.
    code
        The guide's error code where one fits.
    of_scales
        Whether scales were assumed and decide: others, from data, may put it on the DPU, or send
        it from there to the CPU.
    source
        Place in a source file, ``net.py:12``, where the model says it.
    """

    name: str
    op_type: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    device: str = CPU
    runs_in: str = ""
    constraint: str = ""
    message: str = ""
    lift: str = ""
    code: str = ""
    of_scales: bool = False
    source: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inspection:
    """All operators of a model, in the order in which they run, on a target."""

    model: str
    target: Target
    nodes: tuple[InspectedNode, ...]
    assumed_scales: bool = True
    """Whether scales were assumed; those of quantized models are known."""
    requantized: bool = False
    """Whether the model is quantized, with scales that the target does not compute with."""
    devices: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """By op of the compiled graph: what a compilation with these scales does, op by op."""

    def on(self, device: str) -> tuple[InspectedNode, ...]:
        """Return the operators of a device."""
        return tuple(node for node in self.nodes if node.device == device)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-ready values."""
        return {
            "model": self.model,
            "target": self.target.name,
            "fingerprint": f"{self.target.fingerprint:#x}",
            "assumed_scales": self.assumed_scales,
            "requantized": self.requantized,
            "operators": {name: len(self.on(name)) for name in (DPU, CPU, USER)},
            "nodes": [dataclasses.asdict(node) for node in self.nodes],
        }
