# SPDX-License-Identifier: Apache-2.0
"""How a layer requantizes under the extension ``scaled``: parameters of channels and of the result.

Biases, multipliers and shifts of a layer are one array with an element a channel, which is cut with
the channels of a layer as the bias of other layers is.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from opendpu.compiler.layers.feature import Int8Array
from opendpu_arch import scaled

CHANNEL = np.dtype([("bias", np.int64), ("multiplier", np.int64), ("shift", np.int64)])
"""What a channel has; the shift is to the right, behind the multiplier's fraction."""
Int64Array = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Requantization:
    """What all channels of a result have in common.

    Parameters
    ----------
    zero, low, high
        Zero point, least and largest result.
    rounding
        How products are rounded.
    padding
        Zero point of the input: what padding reads.
    parallel
        Channels in a record: the target's channel parallel.
    interval
        Cycles from a pixel of the misc engine to the next, at least.
    """

    zero: int
    low: int
    high: int
    rounding: scaled.Rounding
    padding: int = 0
    parallel: int
    interval: int = 1

    def records(self, channels: npt.NDArray[np.void], sums: Int64Array | int = 0) -> Int8Array:
        """Return the records of all channels, as LOAD wants them.

        ``sums`` are those of each channel's weights, which the zero point of the input adds to.
        """
        count = -(-channels.size // self.parallel) * self.parallel
        whole = np.zeros(count, CHANNEL)
        whole[: channels.size] = channels
        whole["bias"][: channels.size] -= self.padding * np.asarray(sums)
        made = [
            scaled.record(
                bias=part["bias"], multiplier=part["multiplier"], shift=part["shift"],
                zero=self.zero, low=self.low, high=self.high, rounding=self.rounding,
            )
            for part in whole.reshape(-1, self.parallel)
        ]  # fmt: skip
        return np.concatenate(made).view(np.int8)


def channels_of(
    bias: npt.ArrayLike, multiplier: npt.ArrayLike, shift: npt.ArrayLike, count: int
) -> npt.NDArray[np.void]:
    """Return the parameters of ``count`` channels; single numbers are those of all.

    ``shift`` is to the left, as attributes of ops say it.
    """
    made = np.zeros(count, CHANNEL)
    made["bias"], made["multiplier"] = bias, multiplier
    made["shift"] = -np.asarray(shift)
    return made


def bias_words(groups: int, requantization: Requantization | None) -> int:
    """Return the words that biases of channel groups take, or their records."""
    return groups if requantization is None else groups * scaled.RECORD_STRIDE
