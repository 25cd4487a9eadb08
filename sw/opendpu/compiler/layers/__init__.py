# SPDX-License-Identifier: Apache-2.0
"""Layers: what one DPU part computes, a file a kind, and the feature maps between them."""

from opendpu.compiler.layers.alu import AluLayer
from opendpu.compiler.layers.array import ArrayLayer, KernelLayer, diagonal_weights
from opendpu.compiler.layers.blockwise import BlockwiseConvLayer, kernel_parts
from opendpu.compiler.layers.conv import ConvLayer, Epilogue
from opendpu.compiler.layers.dilated import DilatedConvLayer
from opendpu.compiler.layers.eltwise import BroadcastLayer, EltwiseLayer
from opendpu.compiler.layers.feature import Feature, Int8Array, Window
from opendpu.compiler.layers.folded import FoldedConvLayer
from opendpu.compiler.layers.layer import (
    PER_CHANNEL,
    ComputeLayer,
    Features,
    Layer,
    channel_groups,
    fields_of,
)
from opendpu.compiler.layers.misc import MiscLayer
from opendpu.compiler.layers.move import MoveLayer, Reduction
from opendpu.compiler.layers.product import ProductLayer
from opendpu.compiler.layers.scale import ScaleLayer
from opendpu.compiler.layers.shared import SharedDepthwiseLayer, array_layer

__all__ = [
    "PER_CHANNEL",
    "AluLayer",
    "ArrayLayer",
    "BlockwiseConvLayer",
    "BroadcastLayer",
    "ComputeLayer",
    "ConvLayer",
    "DilatedConvLayer",
    "EltwiseLayer",
    "Epilogue",
    "Feature",
    "Features",
    "FoldedConvLayer",
    "Int8Array",
    "KernelLayer",
    "Layer",
    "MiscLayer",
    "MoveLayer",
    "ProductLayer",
    "Reduction",
    "ScaleLayer",
    "SharedDepthwiseLayer",
    "Window",
    "array_layer",
    "channel_groups",
    "diagonal_weights",
    "fields_of",
    "kernel_parts",
]
