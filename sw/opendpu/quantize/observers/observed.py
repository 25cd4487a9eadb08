# SPDX-License-Identifier: Apache-2.0
"""What one pass over the calibration data leaves."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from opendpu.ir import Array, Quantization
from opendpu.quantize.observers.channels import ChannelHistograms
from opendpu.quantize.observers.histogram import Histogram
from opendpu.quantize.observers.mean import SampleMeans


@dataclasses.dataclass(frozen=True)
class Observed:
    """What one pass over the calibration data found.

    Parameters
    ----------
    histograms
        Values of every tensor that is quantized.
    channels
        Those of each channel, of tensors with a scale per channel.
    batches
        By group, the scale that each batch on its own would have; of statistics other than
        ``all`` only.
    layers
        Means of the channels of some layers' results, of the first samples.
    results
        What the float network gives for some ops, sample by sample, of the first ones.
    """

    histograms: Mapping[str, Histogram]
    channels: Mapping[str, ChannelHistograms]
    batches: Mapping[str, Sequence[Quantization]]
    layers: Mapping[str, SampleMeans]
    results: Mapping[str, Sequence[Array]]

    @property
    def means(self) -> dict[str, Array]:
        """The mean of each channel of layers' results, over all samples that were counted."""
        return {name: seen.over(range(len(seen))) for name, seen in self.layers.items()}

    def has(self, numbers: Iterable[int]) -> bool:
        """Return whether layers and results of some samples were kept."""
        counts = [*map(len, self.layers.values()), *map(len, self.results.values())]
        return max(numbers, default=-1) < min(counts, default=0)
