# SPDX-License-Identifier: Apache-2.0
"""What the quantizer did and what it cost, for people and for JSON."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

FEW_FITTED = 32
"""Fewer samples than this, fitted to, may be far nearer to the float network than others."""


@dataclasses.dataclass(frozen=True)
class TensorHistogram:
    """How often values occur, in bins of equal width, coarse enough for a picture.

    Parameters
    ----------
    low, high
        Lower edge of the first bin and upper edge of the last one.
    counts
        Values in each bin.
    """

    low: float
    high: float
    counts: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class TensorReport:
    """How a tensor was quantized, and what that alone costs.

    Parameters
    ----------
    name
        The op that makes it, or the constant.
    role
        ``input``, ``weights``, ``bias`` or ``activation``.
    layer
        The op that it belongs to: itself, or the one that reads a constant.
    number_format, bits
        Number format, and width of its integers.
    scale
        One scale, or one for each channel; none in floating-point formats.
    minimum, maximum
        Range of the real numbers.
    saturation
        Part of the values, 0 to 1, that lie outside of what integers can stand for.
    sqnr
        Signal to quantization noise of this rounding alone, dB; none where nothing changes.
    histogram
        Its values, where they were counted.
    """

    name: str
    role: str
    layer: str
    number_format: str
    bits: int
    scale: tuple[float, ...]
    minimum: float
    maximum: float
    saturation: float
    sqnr: float | None
    histogram: TensorHistogram | None = None

    @property
    def fix_point(self) -> int | None:
        """Fractional bits, where one power of two is the scale."""
        if len(self.scale) != 1 or math.frexp(self.scale[0])[0] != 0.5:
            return None
        return 1 - math.frexp(self.scale[0])[1]


@dataclasses.dataclass(frozen=True)
class LayerReport:
    """What quantization makes of the result of an op.

    Parameters
    ----------
    name
        The op whose result it is: the activation, where one is fused.
    kind, origin
        Kind of the layer or other op that computes, and where it comes from in the user's model.
    weights_sqnr
        Signal to quantization noise of the weights, dB; none without weights or noise.
    output_sqnr
        That of the result, with everything before it quantized too.
    """

    name: str
    kind: str
    origin: str
    weights_sqnr: float | None
    output_sqnr: float | None


@dataclasses.dataclass
class Report:
    """What a quantization did.

    Parameters
    ----------
    samples
        How many samples it was calibrated with.
    tensors
        Every quantized tensor, in order of the graph.
    layers
        Results of the quantized network against the float one, op by op, in order.
    outputs_sqnr
        Signal to quantization noise of each float output of the network, dB; none where equal.
    measured_samples
        Samples that ``layers`` and ``outputs_sqnr`` were measured on.
    measured_apart
        Whether no scale, weight or bias was fitted to these: they are the last ones then.
    obstacles
        Why no DPU runs this; empty where one does.
    finetuned
        Whether weights were finetuned.
    equalized, not_equalized
        Layers whose channels were equalized with others', and of the others the reason why not.
    substituted
        Activations that were replaced, by name.
    substitution_sqnr
        Signal to noise in dB that this made of each output of the float network; none where an
        output is the same.
    tabulated
        Softmaxes and LayerNorms that the DPU computes in parts, and the signal to noise in dB that
        the parts alone make of each, beside the op in float of the same input; none where it was
        not measured.
    floating
        Ops that stay in float.
    notes
        What was left out, what looks wrong, and what to try: a sentence each.
    """

    samples: int = 0
    tensors: Sequence[TensorReport] = ()
    layers: Sequence[LayerReport] = ()
    outputs_sqnr: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    measured_samples: int = 0
    measured_apart: bool = True
    obstacles: Sequence[str] = ()
    finetuned: bool = False
    equalized: Sequence[str] = ()
    not_equalized: Mapping[str, str] = dataclasses.field(default_factory=dict)
    substituted: Sequence[str] = ()
    substitution_sqnr: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    tabulated: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    floating: Sequence[str] = ()
    notes: list[str] = dataclasses.field(default_factory=list)

    def note(self, text: str) -> None:
        """Add a sentence."""
        self.notes.append(text)

    def as_json(self) -> dict[str, Any]:
        """Return what JSON can hold: without histograms, and null for what is not finite."""
        found: dict[str, Any] = _finite(dataclasses.asdict(self))
        for tensor in found["tensors"]:
            del tensor["histogram"]
        return found

    def lines(self) -> list[str]:
        """Return the report as lines of text, without what is as usual."""
        found = []
        if self.obstacles:
            found.append(f"deployable: no, because {'; '.join(self.obstacles)}")
        if self.equalized:
            total = len(self.equalized) + len(self.not_equalized)
            found.append(f"channels equalized in {len(self.equalized)} of {total} layers")
        if self.substituted:
            count = len(self.substituted)
            found.append(f"activations replaced by hard ones: {count}; signal to noise of that:")
            for name, ratio in self.substitution_sqnr.items():
                text = "unchanged" if ratio is None else f"{ratio:.1f} dB"
                found.append(f"  output {name}: {text}")
        if self.tabulated:
            known = {name: ratio for name, ratio in self.tabulated.items() if ratio is not None}
            worst = min(known, key=lambda name: known[name], default=None)
            least = "" if worst is None else (
                f"; least signal to noise of that: {known[worst]:.1f} dB, {worst!r}"
            )  # fmt: skip
            found.append(f"softmax and LayerNorm in parts on the DPU: {len(self.tabulated)}{least}")
        if not self.measured_apart and self.samples < FEW_FITTED:
            found.append(
                "signal to noise is measured on samples that the network was fitted to, "
                f"{self.samples} in all: on others it is less, at times by far"
            )
        return found + [f"note: {text}" for text in self.notes]


def _finite(value: Any) -> Any:
    """Return a tree of values with none instead of infinities and NaN."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
