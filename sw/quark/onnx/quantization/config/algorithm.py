# SPDX-License-Identifier: Apache-2.0
"""What may be done beside choosing scales; Quark's names, arguments and defaults.

Of the arguments, those without an equal here are taken and have no effect.
"""

from typing import Any

from opendpu.quantize.config import FinetuneConfig
from opendpu_arch.errors import UnsupportedError

MANY = 10**9
"""Quark's number of samples that stands for all."""


class AlgoConfig:
    """Something that may be done."""


class CLEConfig(AlgoConfig):
    """Equalize channels between layers; how often and from which differences on is ours."""

    def __init__(self, cle_balance_method: str = "max", cle_steps: int = 1, **other: Any) -> None:
        del cle_balance_method, cle_steps, other


class BiasCorrectionConfig(AlgoConfig):
    """Correct biases, which is always done."""


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
    """Something of Quark's that there is not here; refused when a model is quantized."""

    def __init__(self, *given: Any, **other: Any) -> None:
        del given, other


class AutoMixprecisionConfig(_Elsewhere):
    """Other element types for the layers that suffer most."""


class SmoothQuantConfig(_Elsewhere):
    """Scales moved from activations into the weights of products."""


class QuarotConfig(_Elsewhere):
    """Rotations between products."""


class GPTQConfig(_Elsewhere):
    """Weights of products rounded one after the other."""


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
        elif not isinstance(one, CLEConfig | BiasCorrectionConfig):
            raise UnsupportedError(
                f"algo_config has {type(one).__name__}, but there are here: AdaQuantConfig, "
                "AdaRoundConfig, BiasCorrectionConfig, CLEConfig"
            )
    return found
