# SPDX-License-Identifier: Apache-2.0
"""The layer kinds, each with what plans and what emits it: the one place that knows them all.

A new kind is a class in ``layers``, its tilings in ``planner/tiling``, its instructions in
``emitter``, and a row here.
"""

import dataclasses

from opendpu.compiler.emitter.alu import ALU
from opendpu.compiler.emitter.conv import CONV, PRODUCT
from opendpu.compiler.emitter.dilated import DILATED_CONV
from opendpu.compiler.emitter.elew import ELTWISE
from opendpu.compiler.emitter.kind import LayerEmitter
from opendpu.compiler.emitter.move import MOVE
from opendpu.compiler.emitter.shared import SHARED
from opendpu.compiler.layers import (
    AluLayer,
    BlockwiseConvLayer,
    BroadcastLayer,
    ConvLayer,
    DilatedConvLayer,
    EltwiseLayer,
    Features,
    FoldedConvLayer,
    Layer,
    MoveLayer,
    ProductLayer,
    ScaleLayer,
    SharedDepthwiseLayer,
)
from opendpu.compiler.network import Network
from opendpu.compiler.planner.tiling.conv import conv_tilings, product_tilings
from opendpu.compiler.planner.tiling.dilated import dilated_tilings
from opendpu.compiler.planner.tiling.misc import misc_tilings
from opendpu.compiler.planner.tiling.move import move_tilings
from opendpu.compiler.planner.tiling.problem import TilingProblem, Tilings
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerKind:
    """A layer class, which says what it is and costs, and what the passes do with it."""

    layer: type[Layer]
    tilings: Tilings
    """The candidates for its loops."""
    emitter: LayerEmitter
    """Its instructions."""


LAYER_KINDS = (
    LayerKind(layer=ConvLayer, tilings=conv_tilings, emitter=CONV),
    LayerKind(layer=BlockwiseConvLayer, tilings=conv_tilings, emitter=CONV),
    LayerKind(layer=FoldedConvLayer, tilings=conv_tilings, emitter=CONV),
    LayerKind(layer=ProductLayer, tilings=product_tilings, emitter=PRODUCT),
    LayerKind(layer=DilatedConvLayer, tilings=dilated_tilings, emitter=DILATED_CONV),
    LayerKind(layer=AluLayer, tilings=misc_tilings, emitter=ALU),
    LayerKind(layer=ScaleLayer, tilings=misc_tilings, emitter=ALU),
    LayerKind(layer=SharedDepthwiseLayer, tilings=misc_tilings, emitter=SHARED),
    LayerKind(layer=EltwiseLayer, tilings=misc_tilings, emitter=ELTWISE),
    LayerKind(layer=BroadcastLayer, tilings=misc_tilings, emitter=ELTWISE),
    LayerKind(layer=MoveLayer, tilings=move_tilings, emitter=MOVE),
)
"""Every kind."""
TILINGS = {kind.layer: kind.tilings for kind in LAYER_KINDS}
EMITTERS = {kind.layer: kind.emitter for kind in LAYER_KINDS}


def cycles_alone(layer: Layer, features: Features, target: Target) -> int | None:
    """Return the cycles that a layer is expected to take alone, from DDR to DDR; none: no room."""
    network = Network(
        features=features, layers=(layer,), inputs=layer.operands, outputs=(layer.output,)
    )
    problem = TilingProblem(layer=layer, network=network, target=target, whole={})
    return next((found.cycles for found in TILINGS[type(layer)](problem, layer)), None)
