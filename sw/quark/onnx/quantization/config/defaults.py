# SPDX-License-Identifier: Apache-2.0
"""Quark's configurations of the first form by name, those that there can be here.

``XINT8`` is the one for DPUs: powers of two. All others are for evaluation and for other machines.
A name ends with ``_ADAROUND`` or ``_ADAQUANT`` where weights are finetuned.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from onnxruntime.quantization import CalibrationMethod, QuantType

from opendpu_arch.errors import UnsupportedError
from quark.onnx.quantization.config.quantization_config import QuantizationConfig
from quark.onnx.quantization.quant_utils import (
    ExtendedQuantFormat,
    ExtendedQuantType,
    PowerOfTwoMethod,
)

_RATES = {"ADAROUND": 0.1, "ADAQUANT": 1e-5}
"""Learning rates of finetuning."""

_SYMMETRIC = {"extra_options": {"ActivationSymmetric": True}}
_WIDE = {"quant_format": ExtendedQuantFormat.QDQ}
_PERCENTILE = {"calibrate_method": CalibrationMethod.Percentile}

_SIXTEEN = {
    **_WIDE, "activation_type": ExtendedQuantType.QUInt16, "weight_type": ExtendedQuantType.QInt16,
}  # fmt: skip
_ACCURATE: dict[str, dict[str, Any]] = {
    "INT8": {**_PERCENTILE, "activation_type": QuantType.QUInt8},
    "INT16": {**_PERCENTILE, **_SIXTEEN},
}
"""Parts of configurations that end with :data:`_ACCURATE_ENDS`: finetuned."""
_ACCURATE_ENDS = ("CNN_ACCURATE", "TRANSFORMER_ACCURATE")
_ACCURATE_NAMES = [f"{width}_{end}" for width in _ACCURATE for end in _ACCURATE_ENDS]

_TUNED: dict[str, dict[str, Any]] = {
    "XINT8": {
        "calibrate_method": PowerOfTwoMethod.MinMSE, "activation_type": QuantType.QUInt8,
        "enable_npu_cnn": True, **_SYMMETRIC,
    },
    "A8W8": {**_WIDE, **_SYMMETRIC},
    "A16W8": {**_WIDE, "activation_type": ExtendedQuantType.QInt16, **_SYMMETRIC},
    "S8S8_AAWS": _PERCENTILE,
    "U8S8_AAWS": {**_PERCENTILE, "activation_type": QuantType.QUInt8},
    "S16S8_ASWS": {
        **_PERCENTILE, **_WIDE, "activation_type": ExtendedQuantType.QInt16, **_SYMMETRIC,
    },
    "U16S8_AAWS": {**_PERCENTILE, **_WIDE, "activation_type": ExtendedQuantType.QUInt16},
}  # fmt: skip
_PLAIN: dict[str, dict[str, Any]] = {
    "U8U8_AAWA": {
        **_PERCENTILE, "activation_type": QuantType.QUInt8, "weight_type": QuantType.QUInt8,
        "extra_options": {"ActivationSymmetric": False, "WeightSymmetric": False},
    },
    "INT8_CNN_DEFAULT": {"activation_type": QuantType.QUInt8},
    "INT16_CNN_DEFAULT": _SIXTEEN,
    "INT8_TRANSFORMER_DEFAULT": {"activation_type": QuantType.QUInt8},
    "INT16_TRANSFORMER_DEFAULT": _SIXTEEN,
    "VINT8": {"calibrate_method": PowerOfTwoMethod.MinMSE, **_SYMMETRIC},
    "BF16": {
        **_WIDE, "activation_type": ExtendedQuantType.QBFloat16,
        "weight_type": ExtendedQuantType.QBFloat16,
    },
    "FP16": {
        **_WIDE, "activation_type": ExtendedQuantType.QFloat16,
        "weight_type": ExtendedQuantType.QFloat16,
    },
}  # fmt: skip


def get_default_config(config_name: str) -> QuantizationConfig:
    """Return a new configuration by its name.

    Raises
    ------
    UnsupportedError
        There is none of this name here.
    """
    base, _, algorithm = config_name.rpartition("_")
    if algorithm in _RATES and base in _TUNED:
        return _finetuned(_TUNED[base], algorithm)
    if config_name in _ACCURATE_NAMES:
        found = _finetuned(_ACCURATE[config_name.partition("_")[0]], "ADAROUND")
        found.extra_options["Percentile"] = 99.9999
        return found
    known = _TUNED | _PLAIN
    if config_name not in known:
        raise UnsupportedError(
            f"configuration {config_name!r} is not here; there are {', '.join(known)}, and the "
            f"first {len(_TUNED)} of these with _{' or _'.join(_RATES)} behind, and "
            f"{', '.join(_ACCURATE_NAMES)}"
        )
    return _made(known[config_name])


def _finetuned(parts: Mapping[str, Any], algorithm: str) -> QuantizationConfig:
    found = _made(parts)
    found.include_fast_ft = True
    found.extra_options["FastFinetune"] = {
        "DataSize": 1000, "FixedSeed": 1705472343, "BatchSize": 2, "NumIterations": 1000,
        "LearningRate": _RATES[algorithm], "OptimAlgorithm": algorithm.lower(),
        "OptimDevice": "cpu", "InferDevice": "cpu", "EarlyStop": True,
    }  # fmt: skip
    return found


def get_default_config_mapping() -> dict[str, QuantizationConfig]:
    """Return all configurations by name."""
    tuned = [f"{name}{end}" for name in _TUNED for end in ("", *(f"_{a}" for a in _RATES))]
    return {name: get_default_config(name) for name in (*tuned, *_PLAIN, *_ACCURATE_NAMES)}


def _made(parts: Mapping[str, Any]) -> QuantizationConfig:
    found = QuantizationConfig(**parts)
    return dataclasses.replace(found, extra_options=dict(found.extra_options))


DEFAULT_CONFIG_MAPPING = get_default_config_mapping()
"""By name, as scripts look them up."""
