# SPDX-License-Identifier: Apache-2.0
"""``extra_options``: the guide's, and those that Quark kept or added and that we have."""

import warnings
from collections.abc import Mapping
from typing import Any

from opendpu.quantize.config import FinetuneConfig
from opendpu_arch.errors import UnsupportedError
from vai_q_onnx.smoothing import ALPHA, checked_alpha

GUIDE = (
    "ActivationSymmetric", "WeightSymmetric", "ForceQuantizeNoInputCheck", "MatMulConstBOnly",
    "AddQDQPairToWeight",
)  # fmt: skip
QUARK = (
    "IncludeCLE", "ConvertSigmoidToHardSigmoid", "ReplaceSigmoid", "SimulateDPU", "Percentile",
    "BiasCorrection", "RandomDataReaderSeed", "FastFinetune", "RandomDataReaderInputShape",
    "RandomDataReaderInputDataRange", "SmoothAlpha",
)  # fmt: skip

_NO_EFFECT = ("ForceQuantizeNoInputCheck", "MatMulConstBOnly")
"""Tensors that are moved always have the scale of what is moved; MatMul of two computed tensors
stays in float."""

FINETUNE = {
    "NumIterations": "iterations", "LearningRate": "learning_rate", "BatchSize": "batch",
    "DataSize": "samples", "EarlyStop": "early_stop",
}  # fmt: skip
"""Quark's settings of finetuning that we have."""


LATER = {
    "enable_dpu": None, "enable_ipu_cnn": None, "include_cle": "IncludeCLE",
    "include_fast_ft": "FastFinetune", "include_sq": None, "execution_providers": None,
    "debug_mode": None, "print_summary": None, "enable_npu_cnn": None,
    "enable_npu_transformer": None,
    "random_data_reader_input_shape": "RandomDataReaderInputShape",
}  # fmt: skip
"""Arguments that AMD's function got after the guide, by the option that says the same; none for
what is always so, changes no number, or is asked for elsewhere."""


def with_later(given: Mapping[str, Any] | None, later: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with later arguments among them.

    ``include_fast_ft`` finetunes as Quark does without further settings. Of other arguments, those
    that ask for something are warned of.
    """
    found = dict(given or {})
    for name, value in later.items():
        if name not in LATER:
            if value:
                warnings.warn(f"argument {name!r} has no effect here", stacklevel=3)
        elif (option := LATER[name]) is not None and name == "include_fast_ft":
            if value:
                found.setdefault(option, {"OptimAlgorithm": "adaround"})
        elif option is not None:
            found.setdefault(option, value)
    return found


def checked(given: Mapping[str, Any] | None, *, power_of_two: bool) -> dict[str, Any]:
    """Return the options with defaults; warn of those without effect.

    Symmetric activations and weights, and pairs behind weights, are what the guide asks for with
    scales that are powers of two; they are the default there.
    """
    found: dict[str, Any] = {
        "ActivationSymmetric": power_of_two, "WeightSymmetric": True,
        "AddQDQPairToWeight": power_of_two,
    }  # fmt: skip
    for key, value in (given or {}).items():
        if key not in (*GUIDE, *QUARK) or (key in _NO_EFFECT and value):
            warnings.warn(f"extra_options: {key!r} has no effect here", stacklevel=3)
        elif key.endswith("Symmetric") and power_of_two and not value:
            warnings.warn(
                f"extra_options: {key!r} is False, but must be True where scales are powers of "
                "two; it is taken for True",
                stacklevel=3,
            )
        else:
            found[key] = value
    return found


def finetuning(options: Mapping[str, Any]) -> FinetuneConfig | None:
    """Return how to finetune, as Quark's ``FastFinetune`` says it; none for not at all.

    Raises
    ------
    UnsupportedError
        It is no mapping, or an algorithm or number is not allowed.
    """
    given = options.get("FastFinetune")
    if not given:
        return None
    if not isinstance(given, Mapping):
        raise UnsupportedError(f"extra_options: FastFinetune is {given!r}, but must be a dict")
    method = str(given.get("OptimAlgorithm", "adaround")).lower()
    settings = {ours: given[theirs] for theirs, ours in FINETUNE.items() if theirs in given}
    return FinetuneConfig(method=method, **settings)


def smoothing(options: Mapping[str, Any]) -> float:
    """Return how much of the range of activations goes into weights.

    Raises
    ------
    UnsupportedError
        It is no number from 0 to 1.
    """
    return checked_alpha(options.get("SmoothAlpha", ALPHA))
