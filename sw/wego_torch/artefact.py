# SPDX-License-Identifier: Apache-2.0
"""Compiled networks as bytes, with what it takes to call them."""

import dataclasses
import io
import json
from collections.abc import Mapping
from typing import Any

import torch

FORM = "compiled"
"""What the form of such a file is, see :mod:`pytorch_nndct.export.torch_script`."""


@dataclasses.dataclass(frozen=True)
class Artefact:
    """A compiled network.

    Parameters
    ----------
    model
        The compiled ``.xmodel``.
    inputs
        Names of its inputs, in the order in which they are given.
    outputs
        Names of its outputs, in the order in which they are returned.
    orders
        The user's axis of each axis of the DPU's, by input or output, where they differ.
    scalars
        Outputs without axes in the user's module, which have one of one element here.
    batched
        Whether the network is for one sample, and is given several at a time.
    device
        What runs it; empty for what the environment says.
    workers
        How many jobs are in flight; 0 for as many as the host has cores.
    cores
        How many cores of the device are used; 0 for what the environment says.
    debug
        Whether inputs and outputs of parts are written.
    report
        What the compiler decided, as JSON-ready values: :class:`opendpu.compiler.report.Report`.
    """

    model: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    orders: Mapping[str, tuple[int, ...]]
    batched: bool
    device: str = ""
    workers: int = 0
    cores: int = 0
    debug: bool = False
    scalars: tuple[str, ...] = ()
    report: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return it as a file of ``torch.save`` that holds plain values only."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        model = torch.frombuffer(bytearray(fields.pop("model")), dtype=torch.uint8)
        written = io.BytesIO()
        torch.save({"form": FORM, "model": model, "fields": json.dumps(fields)}, written)
        return written.getvalue()

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> "Artefact":
        """Return what :meth:`to_bytes` wrote, given what ``torch.load`` makes of it."""
        fields = json.loads(saved["fields"])
        for name in ("inputs", "outputs", "scalars"):
            fields[name] = tuple(fields.get(name, ()))
        fields["orders"] = {name: tuple(axes) for name, axes in fields["orders"].items()}
        return cls(model=saved["model"].numpy().tobytes(), **fields)

    @classmethod
    def from_bytes(cls, content: bytes) -> "Artefact":
        """Return what :meth:`to_bytes` wrote."""
        return cls.of(torch.load(io.BytesIO(content), weights_only=True))
