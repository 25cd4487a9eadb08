# SPDX-License-Identifier: Apache-2.0
"""Commands of layers that run as a cascade."""

from collections.abc import Mapping

from opendpu.compiler.emitter.cascade_tile import CascadeTile
from opendpu.compiler.emitter.kind import CascadeEmitter, LayerEmitter, StripeEmitter
from opendpu.compiler.emitter.recorder import Recorder
from opendpu.compiler.layers import Layer
from opendpu.compiler.plan import CascadePlan, LayerPlan


def emit_cascade(
    recorder: Recorder, cascade: CascadePlan, emitters: Mapping[type[Layer], LayerEmitter]
) -> None:
    """Append the commands of a cascade: tiles of columns, in each the stripes in issue order.

    What has the same columns as in the first tile, such as gates, is still there from then.
    """
    plans = {n: recorder.plan.layers[n] for n in cascade.layers.numbers}
    members: dict[int, CascadeEmitter] = {}
    for number, plan in plans.items():
        recorder.expect_on_chip(plan)
        in_cascade = emitters[type(plan.layer)].in_cascade
        assert in_cascade is not None, f"{plan.layer.name} is in a cascade"
        members[number] = in_cascade(recorder, plan, plan.layer)
    made = {plan.layer.output for plan in plans.values()}
    first = cascade.tiles[0]
    for columns in cascade.tiles:
        kept = {
            number
            for number, plan in plans.items()
            if columns is not first
            and columns[plan.layer.output] == first[plan.layer.output]
            and _holds_all_rows(recorder, plan)
        }
        tile = CascadeTile(recorder, columns, made)
        stripes: dict[int, StripeEmitter] = {}
        for number, row, rows in cascade.issue_order:
            if number in kept:
                continue
            recorder.layer = plans[number].layer.name
            if number not in stripes:
                stripes[number] = members[number].stripes(tile)
            stripes[number].emit(row, rows)


def _holds_all_rows(recorder: Recorder, plan: LayerPlan) -> bool:
    """Tell whether no row of a result takes the words of another."""
    height = recorder.plan.network.features[plan.layer.output].height
    rows = plan.output.stride * recorder.target.pixel_parallel
    return plan.output.capacity * rows >= height
