# SPDX-License-Identifier: Apache-2.0
"""What may be done beside choosing scales; Quark's names, arguments and defaults.

Of the arguments, those without an equal here are taken and have no effect.
"""

from collections.abc import Sequence
from typing import Any

from opendpu.quantize.config import FinetuneConfig
from opendpu_arch.errors import UnsupportedError
from quark.onnx.quantization.config.spec import QLayerConfig
from vai_q_onnx.smoothing import ALPHA, checked_alpha

MANY = 10**9
"""Quark's number of samples that stands for all."""
MIXED_OPERATORS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators that automatic mixed precision gives other types."""
SEARCHED = (
    "types are not searched for by loss here; opendpu quantize --sensitivity lists the layers that "
    "suffer most, and specific_layer_config or include_layers names them"
)


class AlgoConfig:
    """Something that may be done."""


class CLEConfig(AlgoConfig):
    """Equalize channels between layers; how often and from which differences on is ours."""

    def __init__(self, cle_balance_method: str = "max", cle_steps: int = 1, **other: Any) -> None:
        del cle_balance_method, cle_steps, other


class BiasCorrectionConfig(AlgoConfig):
    """Correct biases, which is always done."""


class SmoothQuantConfig(AlgoConfig):
    """Move scales from activations into the weights of products.

    Parameters
    ----------
    alpha
        How much of the range of activations, from 0 to 1.
    """

    def __init__(self, alpha: float = ALPHA, **other: Any) -> None:
        del other
        self.alpha = checked_alpha(alpha)


class AutoMixprecisionConfig(AlgoConfig):
    """Give operators other element types.

    Parameters
    ----------
    target_layer_config
        The types; a role without one keeps its own.
    target_op_type
        Operators that get them.
    act_target_quant_type, weight_target_quant_type
        The same in early releases, as data types.
    include_layers, exclude_layers
        Names of nodes that are the only ones, or excepted.
    metric_threshold, l2_target, top1_acc_target
        How much may be lost, or must be won: not here, for it takes a search.
    other
        Arguments of that search; without effect.
    """

    def __init__(
        self,
        target_layer_config: QLayerConfig | None = None,
        target_op_type: Sequence[str] = MIXED_OPERATORS,
        *,
        act_target_quant_type: Any = None,
        weight_target_quant_type: Any = None,
        include_layers: Sequence[str] | None = None,
        exclude_layers: Sequence[str] | None = None,
        metric_threshold: float | None = 0,
        l2_target: float | None = None,
        top1_acc_target: float | None = None,
        **other: Any,
    ) -> None:
        del other
        self.operators = tuple(target_op_type)
        self.include, self.exclude = tuple(include_layers or ()), tuple(exclude_layers or ())
        self.limits = {
            "metric_threshold": metric_threshold, "l2_target": l2_target,
            "top1_acc_target": top1_acc_target,
        }  # fmt: skip
        self._given = target_layer_config, act_target_quant_type, weight_target_quant_type

    @property
    def target(self) -> QLayerConfig:
        """The types.

        Raises
        ------
        UnsupportedError
            They are given by layer, or a loss is said that may not be exceeded.
        """
        config, activation, weight = self._given
        for name, value in self.limits.items():
            if value or (name == "metric_threshold" and value is None):
                raise UnsupportedError(f"AutoMixprecisionConfig: {name} is {value!r}: {SEARCHED}")
        if config is None:
            config = QLayerConfig(
                activation=getattr(activation, "spec", activation),
                weight=getattr(weight, "spec", weight),
            )
        if not isinstance(config, QLayerConfig):
            raise UnsupportedError(
                f"AutoMixprecisionConfig: target_layer_config is a {type(config).__name__}, but "
                "must be a QLayerConfig; specific_layer_config of QConfig gives types by layer"
            )
        return config


class _Finetuning(AlgoConfig):
    method = ""
    iterations = 1000
    learning_rate = 0.1

    def __init__(
        self,
        optim_device: str = "cpu",
        infer_device: str = "cpu",
        fixed_seed: int = 1705472343,
        data_size: int = MANY,
        batch_size: int = 1,
        num_batches: int = 1,
        num_iterations: int | None = None,
        learning_rate: float | None = None,
        early_stop: bool = False,
        **other: Any,
    ) -> None:
        del optim_device, infer_device, num_batches, other
        self.seed = fixed_seed
        self.config = FinetuneConfig(
            method=self.method, batch=batch_size, early_stop=early_stop,
            samples=None if data_size >= MANY else data_size,
            iterations=self.iterations if num_iterations is None else num_iterations,
            learning_rate=self.learning_rate if learning_rate is None else learning_rate,
        )  # fmt: skip


class AdaRoundConfig(_Finetuning):
    """Learn which way each weight is rounded."""

    method = "adaround"


class AdaQuantConfig(_Finetuning):
    """Train weights straight through their rounding."""

    method = "adaquant"
    iterations = 3000
    learning_rate = 1e-5


class _Elsewhere(AlgoConfig):
    """Something of Quark's that there is not here; refused when a model is quantized.

    ``instead`` says why, and what there is.
    """

    instead = ""

    def __init__(self, *given: Any, **other: Any) -> None:
        del given, other


class QuarotConfig(_Elsewhere):
    """Rotations between products."""

    instead = (
        "rotations need a matrix that is written for one family of language models; "
        "SmoothQuantConfig also takes large channels from activations"
    )


class GPTQConfig(_Elsewhere):
    """Weights of products rounded one after the other."""

    instead = "AdaRoundConfig learns how weights are rounded, of convolutions too"


_TAKEN = CLEConfig | BiasCorrectionConfig | SmoothQuantConfig | AutoMixprecisionConfig


def smoothing_of(algorithms: list[AlgoConfig]) -> float | None:
    """Return how much of the range of activations goes into weights; none for nothing of it."""
    found = [one.alpha for one in algorithms if isinstance(one, SmoothQuantConfig)]
    return found[-1] if found else None


def finetuning_of(algorithms: list[AlgoConfig]) -> FinetuneConfig | None:
    """Return how to finetune; none for not at all.

    Raises
    ------
    UnsupportedError
        Something else than the classes here.
    """
    found = None
    for one in algorithms:
        if isinstance(one, _Finetuning):
            found = one.config
        elif not isinstance(one, _TAKEN):
            why = f"; {one.instead}" if isinstance(one, _Elsewhere) else ""
            raise UnsupportedError(
                f"algo_config has {type(one).__name__}, but there are here: AdaQuantConfig, "
                "AdaRoundConfig, AutoMixprecisionConfig, BiasCorrectionConfig, CLEConfig, "
                f"SmoothQuantConfig{why}"
            )
    return found
