# SPDX-License-Identifier: Apache-2.0
"""How the tensors of a role are quantized, and rules that say it for some layers apart.

Plain data without numpy, onnxruntime or torch: front ends and the command line can make it.
"""

import dataclasses
import fnmatch
from collections.abc import Iterable

from opendpu_arch.errors import UnsupportedError
from opendpu_arch.extensions import Extension
from opendpu_arch.target import Target

METHODS = ("minmse", "diffs", "nonoverflow", "max", "percentile", "mse", "entropy")
"""Ways to choose the scale of a tensor, see :class:`TensorSpec`."""

STATISTICS = ("all", "modal", "max", "mean", "median", "moving_average")
"""What becomes of the scales of several batches, see :class:`TensorSpec`."""

SCALES = ("power_of_two", "float")
"""What a scale may be."""

GRANULARITIES = ("per_tensor", "per_channel")
"""What has a scale of its own."""

ROUNDINGS = (
    "half_up", "half_even", "half_away", "half_down", "std_round", "floor", "ceil", "toward_zero",
    "away_from_zero",
)  # fmt: skip
"""What happens to numbers between two integers; ``std_round`` is ``half_away``."""

NUMBER_FORMATS = ("int", "float16", "bfloat16", "bfp16", "mx6", "mx9", "float32")
"""Number formats; ``float32`` means that a tensor is not quantized."""

ROLES = ("input", "weights", "bias", "activation")
"""What a tensor can be; ``input`` is an input of the network."""

BITS = range(2, 17)
"""Widths of integers."""

BIAS_BITS = range(2, 33)
"""Widths of the integers of biases."""

DPU_BITS = 8
"""The width of every tensor of the DPU; narrower constants are int8 values on a coarser grid."""


def has_channels(target: Target | None) -> bool:
    """Return whether a target has the extension ``channel``: scales for each output channel."""
    return target is not None and Extension.CHANNEL in target.extensions


def check_choice(what: str, given: str, allowed: Iterable[str]) -> None:
    """Raise UnsupportedError if a word is none of those allowed."""
    if given not in (words := tuple(allowed)):
        raise UnsupportedError(f"{what} {given!r} is unknown; choose one of {', '.join(words)}")


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """How the tensors of one role are quantized.

    Parameters
    ----------
    bits
        Width of the integers, of ``number_format`` ``int`` only: 2 to 16, of biases to 32.
    symmetric
        Whether real zero is integer zero; otherwise there is a zero point.
    scale
        ``power_of_two``, or ``float``: any positive number.
    granularity
        One scale ``per_tensor``, or ``per_channel``: one for each output channel of weights and
        biases, one for each index of the last axis of other tensors.
    method
        How the scale is chosen. ``nonoverflow``, ``max``: nothing saturates; ``minmse``, ``mse``,
        ``diffs``: least squared error; ``percentile``: the part ``percentile`` of the magnitudes
        does not saturate; ``entropy``: the distribution changes least (Kullback-Leibler).
        ``diffs`` is ``mse`` by ``modal`` vote of the batches where scales are powers of two.
    statistic
        Over which data the method is applied: ``all`` at once, or batch by batch, and the
        ``modal`` (commonest), ``max``, ``mean`` or ``median`` scale of these is taken, or their
        ``moving_average``. Constants and scales per channel always take ``all``.
    percentile
        Percentage of magnitudes that method ``percentile`` represents.
    rounding
        How real numbers become integers.
    number_format
        ``int``; floating-point formats ``float16``, ``bfloat16``; block floating point ``bfp16``,
        ``mx6``, ``mx9``; or ``float32``, not quantized.
    signed
        Whether integers have a sign.
    narrow_range
        Whether the smallest integer of a signed tensor is left out, so that the range is
        symmetric.

    Raises
    ------
    UnsupportedError
        A value that is not allowed, or two that exclude each other.
    """

    bits: int = DPU_BITS
    symmetric: bool = True
    scale: str = "power_of_two"
    granularity: str = "per_tensor"
    method: str = "minmse"
    statistic: str = "all"
    percentile: float = 99.9999
    rounding: str = "half_up"
    number_format: str = "int"
    signed: bool = True
    narrow_range: bool = False

    def __post_init__(self) -> None:
        """Check every value."""
        check_choice("scale", self.scale, SCALES)
        check_choice("granularity", self.granularity, GRANULARITIES)
        check_choice("calibration method", self.method, METHODS)
        check_choice("statistic of batches", self.statistic, STATISTICS)
        check_choice("rounding", self.rounding, ROUNDINGS)
        check_choice("number format", self.number_format, NUMBER_FORMATS)
        if self.bits not in BIAS_BITS:
            raise UnsupportedError(
                f"bits is {self.bits}, but must be in {BITS[0]}..{BITS[-1]}, "
                f"of biases up to {BIAS_BITS[-1]}"
            )
        if self.number_format == "int" and self.scale == "float" and self.statistic == "modal":
            raise UnsupportedError(
                "statistic of batches 'modal' needs scale power_of_two: floats hardly ever agree"
            )
        if not 0 < self.percentile <= 100:
            raise UnsupportedError(
                f"percentile is {self.percentile:g}, but must be above 0 and at most 100"
            )

    @property
    def is_quantized(self) -> bool:
        """Whether a tensor is quantized at all."""
        return self.number_format != "float32"

    @property
    def has_fix_point(self) -> bool:
        """Whether powers of two are the scales, and zero stands for zero."""
        return self.number_format == "int" and self.scale == "power_of_two" and self.symmetric

    def obstacles(self, role: str, target: Target | None = None) -> list[str]:
        """Return why the DPU cannot run quantized tensors like this, a phrase each.

        Without a ``target``, that is one without extensions.
        """
        if not self.is_quantized:
            return []
        if self.number_format != "int":
            return [f"{role} is {self.number_format}, but the DPU computes with integers"]
        found = []
        if self.bits > DPU_BITS or (self.bits < DPU_BITS and role in ("input", "activation")):
            found.append(f"{role} has {self.bits} bits, but the DPU has {DPU_BITS}")
        if self.scale != "power_of_two":
            found.append(f"{role} has a scale of type {self.scale}, but the DPU shifts")
        if not self.symmetric:
            found.append(f"{role} has zero points, which the DPU has not")
        if self.granularity != "per_tensor" and role in ("input", "activation"):
            found.append(f"{role} has a scale per channel, but the DPU shifts all channels alike")
        elif self.granularity != "per_tensor" and not has_channels(target):
            found.append(
                f"{role} has a scale per channel, but only a target with the extension "
                f"{Extension.CHANNEL.label!r} shifts channels apart"
            )
        if not self.signed:
            found.append(f"{role} is unsigned, but the DPU's integers are signed")
        if role == "activation" and self.narrow_range:
            found.append(f"{role} has a narrow range, but the DPU's integers reach -128")
        if role == "activation" and self.rounding != "half_up":
            found.append(f"{role} is rounded {self.rounding}, but the DPU rounds half_up")
        return found


@dataclasses.dataclass(frozen=True)
class Override:
    """One rule of mixed precision: other specifications for some layers.

    Parameters
    ----------
    kinds
        Patterns (as file names have them: ``*``, ``?``) of kinds of ops: ours (``conv2d``) or the
        model's (``Conv``, ``torch.nn.Conv2d``); none means any.
    names
        Patterns of names of ops, ours or the model's; none means any.
    input, weights, bias, activation
        What holds for these layers instead; none where the general one holds. ``input`` is that of
        an input of the network that is matched itself.
    """

    kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    input: TensorSpec | None = None
    weights: TensorSpec | None = None
    bias: TensorSpec | None = None
    activation: TensorSpec | None = None

    def matches(self, kinds: Iterable[str], names: Iterable[str]) -> bool:
        """Return whether an op is meant that is called so."""
        return _any_matches(self.kinds, kinds) and _any_matches(self.names, names)


def _any_matches(patterns: tuple[str, ...], words: Iterable[str]) -> bool:
    return not patterns or any(
        fnmatch.fnmatchcase(word, pattern) for word in words for pattern in patterns
    )
