# SPDX-License-Identifier: Apache-2.0
"""Pass: a plan to commands: instructions in sequential order, without tokens."""

from collections.abc import Mapping

from opendpu.compiler.emitter.cascade import emit_cascade
from opendpu.compiler.emitter.kind import LayerEmitter
from opendpu.compiler.emitter.recorder import Recorder
from opendpu.compiler.layers import Layer
from opendpu.compiler.plan import Plan
from opendpu.compiler.program import CommandStream
from opendpu_arch.target import Target


def emit(plan: Plan, target: Target, emitters: Mapping[type[Layer], LayerEmitter]) -> CommandStream:
    """Return the commands of ``plan``: run one after the other, they compute the network."""
    recorder = Recorder(target, plan)
    starts = {cascade.layers.first: cascade for cascade in plan.cascades}
    number = 0
    while number < len(plan.layers):
        if number in starts:
            emit_cascade(recorder, starts[number], emitters)
            number = starts[number].layers.last + 1
            continue
        placed = plan.layers[number]
        recorder.layer = placed.layer.name
        recorder.expect_on_chip(placed)
        emitters[type(placed.layer)].alone(recorder, placed, placed.layer)
        number += 1
    return CommandStream(plan=plan, commands=tuple(recorder.commands))
