# SPDX-License-Identifier: Apache-2.0
"""Commands of layers that run as a cascade."""

from collections.abc import Mapping

from opendpu.compiler.emitter.cascade_tile import CascadeTile
from opendpu.compiler.emitter.kind import CascadeEmitter, LayerEmitter, StripeEmitter
from opendpu.compiler.emitter.recorder import Recorder
from opendpu.compiler.layers import Layer
from opendpu.compiler.plan import CascadePlan


def emit_cascade(
    recorder: Recorder, cascade: CascadePlan, emitters: Mapping[type[Layer], LayerEmitter]
) -> None:
    """Append the commands of a cascade: tiles of columns, in each the stripes in issue order."""
    plans = {n: recorder.plan.layers[n] for n in cascade.layers.numbers}
    members: dict[int, CascadeEmitter] = {}
    for number, plan in plans.items():
        recorder.expect_on_chip(plan)
        in_cascade = emitters[type(plan.layer)].in_cascade
        assert in_cascade is not None, f"{plan.layer.name} is in a cascade"
        members[number] = in_cascade(recorder, plan, plan.layer)
    made = {plan.layer.output for plan in plans.values()}
    for columns in cascade.tiles:
        tile = CascadeTile(recorder, columns, made)
        stripes: dict[int, StripeEmitter] = {}
        for number, row, rows in cascade.issue_order:
            recorder.layer = plans[number].layer.name
            if number not in stripes:
                stripes[number] = members[number].stripes(tile)
            stripes[number].emit(row, rows)
