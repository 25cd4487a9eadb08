# SPDX-License-Identifier: Apache-2.0
"""What one pass over the calibration data leaves."""

import dataclasses
from collections.abc import Mapping, Sequence

from opendpu.ir import Array, Quantization
from opendpu.quantize.observers.channels import ChannelHistograms
from opendpu.quantize.observers.histogram import Histogram


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
    means
        Mean of each channel of some layers' results, over some samples.
    """

    histograms: Mapping[str, Histogram]
    channels: Mapping[str, ChannelHistograms]
    batches: Mapping[str, Sequence[Quantization]]
    means: Mapping[str, Array]
