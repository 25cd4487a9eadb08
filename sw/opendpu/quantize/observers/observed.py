# SPDX-License-Identifier: Apache-2.0
"""What one pass over the calibration data leaves."""

import dataclasses
from collections import Counter
from collections.abc import Mapping

from opendpu.ir import Array
from opendpu.quantize.observers.histogram import Histogram


@dataclasses.dataclass(frozen=True)
class Observed:
    """What one pass over the calibration data found.

    Parameters
    ----------
    histograms
        Values of every tensor that is quantized.
    votes
        By group, the best fix point of each batch; of method ``diffs`` only.
    means
        Mean of each channel of some layers' results, over some samples.
    """

    histograms: Mapping[str, Histogram]
    votes: Mapping[str, Counter[int]]
    means: Mapping[str, Array]
