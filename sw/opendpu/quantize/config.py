# SPDX-License-Identifier: Apache-2.0
"""The quantizer's configuration: how the tensors of every role are quantized, and what is done.

Plain data without numpy, onnxruntime or torch: front ends and the command line can make it.
"""

import dataclasses
import os
import typing
from collections.abc import Iterable

from opendpu.quantize.config_json import parse
from opendpu.quantize.tensor_spec import BITS, ROLES, Override, TensorSpec, check_choice
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.target import Target

DEFAULT = TensorSpec()
"""How inputs, weights and activations are quantized where nothing else is said."""

NONOVERFLOW = TensorSpec(method="nonoverflow")
"""How biases are."""

SUBSTITUTIONS = ("none", "hard")
"""What becomes of sigmoid and swish, see :class:`QuantizeConfig`."""


@dataclasses.dataclass(frozen=True)
class FinetuneConfig:
    """Fast finetuning: rounding and biases, layer by layer, trained on the calibration samples.

    Parameters
    ----------
    method
        ``adaquant`` (Hubara et al., arXiv 2006.10518) or ``adaround`` (Nagel et al.,
        arXiv 2004.10568).
    iterations
        Steps of the optimizer a layer, at most.
    learning_rate
        Of the optimizer; none for the method's own.
    batch
        Samples a step.
    samples
        Samples that are used at most; none for all.
    early_stop
        Whether a layer is done when its error no longer falls.
    """

    method: str = "adaquant"
    iterations: int = 1000
    learning_rate: float | None = None
    batch: int = 32
    samples: int | None = None
    early_stop: bool = True

    def __post_init__(self) -> None:
        """Check every value."""
        check_choice("finetuning method", self.method, ("adaquant", "adaround"))
        for name in ("iterations", "batch", "samples"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UnsupportedError(f"{name} of finetuning is {value}, but must be at least 1")
        if self.learning_rate is not None and self.learning_rate <= 0:
            raise UnsupportedError(
                f"learning_rate of finetuning is {self.learning_rate:g}, but must be above 0"
            )


@dataclasses.dataclass(frozen=True)
class QuantizeConfig:
    """What the quantizer does.

    Parameters
    ----------
    input, weights, bias, activation
        How tensors are quantized, by role.
    overrides
        What holds for some layers instead; of several rules that match, the last one that says
        something of a role.
    cross_layer
        Whether ranges of channels are equalized between layers.
    bias_correction
        Whether biases are shifted so that quantization moves no channel's mean.
    weight_correction
        Whether weights are refitted to what the quantized layers before them give, where the
        network's results are far from the float ones (:mod:`opendpu.quantize.finetune`).
    refinement
        Whether scales next to the chosen ones are tried by what they do to the network's results.
    activation_substitution
        ``none``, or ``hard``: sigmoid and swish become hard ones where the DPU then has them.
    relu6_to_relu
        Whether every ReLU6 becomes a ReLU, which changes what the network computes where values
        exceed 6.
    join_outputs
        Whether concatenations for outputs are quantized, as AMD's quantizers do: what they join has
        one scale then, and the DPU writes it as one tensor. Otherwise they stay in float, and every
        part keeps its own scale.
    batch
        Samples that are evaluated at a time at most, and that have one vote in a statistic.
    seed
        Seed of what is random: the samples of finetuning.
    finetune
        How to finetune; none for not at all.
    target
        The DPU whose limits hold; none for those that all of ISA1 have in common. With the
        extension ``channel``, weights and biases whose scales are powers of two have one for each
        output channel.
    """

    input: TensorSpec = DEFAULT
    weights: TensorSpec = DEFAULT
    bias: TensorSpec = NONOVERFLOW
    activation: TensorSpec = DEFAULT
    overrides: tuple[Override, ...] = ()
    cross_layer: bool = True
    bias_correction: bool = True
    weight_correction: bool = True
    refinement: bool = True
    activation_substitution: str = "none"
    relu6_to_relu: bool = False
    join_outputs: bool = False
    batch: int = 32
    seed: int = 0
    finetune: FinetuneConfig | None = None
    target: Target | None = None

    def __post_init__(self) -> None:
        """Check what the parts cannot check themselves."""
        check_choice("activation substitution", self.activation_substitution, SUBSTITUTIONS)
        if not isinstance(self.target, Target | None):
            raise UnsupportedError(
                f"target is {self.target!r}, but must be a Target, such as "
                "opendpu.targets.find_target returns"
            )
        if self.batch < 1:
            raise UnsupportedError(f"batch is {self.batch}, but must be at least 1")
        for role, spec in self.specs():
            if role != "bias" and spec.bits not in BITS:
                raise UnsupportedError(
                    f"{role} has {spec.bits} bits, but must have {BITS[0]} to {BITS[-1]}"
                )

    @classmethod
    def with_method(cls, method: str) -> "QuantizeConfig":
        """Return the default with a method for input, weights and activations."""
        spec = TensorSpec(method=method)
        return cls(input=spec, weights=spec, activation=spec)

    @classmethod
    def from_json(cls, source: str | os.PathLike[str]) -> "QuantizeConfig":
        """Return what a configuration in the guide's JSON says: a path, or the text itself.

        See :func:`opendpu.quantize.config_json.parse`.
        """
        return cls(**parse(source))

    def spec_of(
        self, role: str, kinds: Iterable[str] = (), names: Iterable[str] = ()
    ) -> TensorSpec:
        """Return how a tensor is quantized: its role, and what its op is called."""
        check_choice("role", role, ROLES)
        kinds, names = tuple(kinds), tuple(names)
        found = getattr(self, role)
        for rule in self.overrides:
            if getattr(rule, role) is not None and rule.matches(kinds, names):
                found = getattr(rule, role)
        return typing.cast(TensorSpec, found)

    def specs(self) -> list[tuple[str, TensorSpec]]:
        """Return every specification with its role, those of overrides too."""
        rules: list[QuantizeConfig | Override] = [self, *self.overrides]
        pairs = [(role, getattr(rule, role)) for rule in rules for role in ROLES]
        return [(role, spec) for role, spec in pairs if spec is not None]

    def deployable(self) -> list[str]:
        """Return why no DPU runs what this makes, a phrase each; nothing if one does."""
        found = [text for role, spec in self.specs() for text in spec.obstacles(role, self.target)]
        for rule in (self, *self.overrides):
            given = {role: getattr(rule, role) for role in ROLES}
            float_roles = [role for role, spec in given.items() if spec and not spec.is_quantized]
            apart = rule is not self and {"weights", "activation"} <= set(float_roles)
            if float_roles and not apart:  # else whole layers are left to the CPU
                found += [f"{role} is float32, but the DPU computes with integers"
                          for role in float_roles]  # fmt: skip
        return list(dict.fromkeys(found))
