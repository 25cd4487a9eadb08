# SPDX-License-Identifier: Apache-2.0
"""Pass: a plan to instructions in sequential order, without tokens."""

from opendpu.compiler.emission.chain import emit_chain
from opendpu.compiler.emission.conv import emit_conv
from opendpu.compiler.emission.dilated import emit_dilated
from opendpu.compiler.emission.misc import emit_alu, emit_eltwise
from opendpu.compiler.emission.move import emit_move
from opendpu.compiler.emission.recorder import Recorder
from opendpu.compiler.plan import AluLayer, ConvLayer, DilatedConvLayer, MoveLayer, Plan, Step
from opendpu_arch.target import Target


def emit(plan: Plan, target: Target) -> tuple[Step, ...]:
    """Return the steps of ``plan``: run one after the other, they compute the network."""
    recorder = Recorder(target, plan)
    chains = {chain.first: chain for chain in plan.chains}
    inside = {n for c in plan.chains for n in range(c.first, c.last + 1)}
    for number, placed in enumerate(plan.layers):
        if number in chains:
            emit_chain(recorder, chains[number])
        if number in inside:
            continue
        layer = placed.layer
        recorder.layer = layer.name
        if placed.output.whole:
            height = plan.network.features[layer.output].height
            recorder.on_chip[layer.output] = set(range(height))
        if isinstance(layer, DilatedConvLayer):
            emit_dilated(recorder, placed, layer)
        elif isinstance(layer, ConvLayer):
            emit_conv(recorder, placed, layer)
        elif isinstance(layer, AluLayer):
            emit_alu(recorder, placed, layer)
        elif isinstance(layer, MoveLayer):
            emit_move(recorder, placed, layer)
        else:
            emit_eltwise(recorder, placed, layer)
    return tuple(recorder.steps)
