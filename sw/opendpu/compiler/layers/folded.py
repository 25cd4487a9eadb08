# SPDX-License-Identifier: Apache-2.0
"""First layers whose input pixels hold the windows of several results."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np

from opendpu.compiler.layers.conv import ConvLayer
from opendpu.compiler.layers.feature import Int8Array
from opendpu.compiler.layers.layer import Features, WeightWords
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoldedConvLayer(ConvLayer):
    """Convolution of which a pixel of the input is all that ``pixels`` neighbouring results need.

    LOAD folds that much of a row into the channels of a pixel, so that it brings fewer words. An
    instruction makes every ``pixels``-th column of some rows. ``weights`` are those of one result,
    over the first channels; those of the next one lie ``step`` channels further on.
    """

    WHOLE_KERNEL: ClassVar[bool] = False

    pixels: int
    step: int
    parallel: int
    """Output channels of a block."""

    @functools.cached_property
    def shifted(self) -> Int8Array:
        """Weights OHWI over all channels, those of each of the ``pixels`` in turn.

        Zeros follow those of each, up to a whole block of output channels.
        """
        outputs, height, width, inputs = self.weights.shape
        whole = -(-outputs // self.parallel) * self.parallel
        channels = inputs + (self.pixels - 1) * self.step
        made = np.zeros((self.pixels, whole, height, width, channels), np.int8)
        for pixel in range(self.pixels):
            first = pixel * self.step
            made[pixel, :outputs, ..., first : first + inputs] = self.weights
        return made.reshape(-1, height, width, channels)

    @property
    def columns_a_pixel(self) -> int:
        """The results of a pixel."""
        return self.pixels

    @property
    def weights_shape(self) -> tuple[int, int, int, int]:
        """Output channels of all pixels, kernel rows and columns, input channels."""
        outputs, height, width, inputs = map(int, self.shifted.shape)
        return outputs, height, width, inputs

    @property
    def constants(self) -> Mapping[str, Int8Array]:
        """Those of the convolution, with the weights of every pixel."""
        return {**super().constants, "weights": self.shifted}

    def weight_words(self, features: Features, target: Target) -> WeightWords:
        """Return the words of the weights of every pixel, and of the biases."""
        words = super().weight_words(features, target)
        return dataclasses.replace(words, conv=words.conv * self.pixels)

    def broken_rules(self, features: Features) -> Iterator[tuple[str, str]]:
        """Check that each pixel of the input belongs to as many results."""
        source, out = features[self.source], features[self.output]
        if source.width != -(-out.width // self.pixels):
            yield "pixels-of-input", f"{source.width} columns make {out.width}"
        if source.channels != self.weights_shape[3]:
            yield "inputs-of-weights", f"{source.channels} channels, weights {self.weights_shape}"
