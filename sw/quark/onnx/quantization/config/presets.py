# SPDX-License-Identifier: Apache-2.0
"""Quark's configurations in its second form, those that there can be here."""

from quark.onnx.quantization.config.algorithm import AdaQuantConfig, AdaRoundConfig, AlgoConfig
from quark.onnx.quantization.config.config import QConfig
from quark.onnx.quantization.config.spec import (
    BFloat16Spec,
    BFP16Spec,
    Int8Spec,
    Int16Spec,
    MX6Spec,
    MX9Spec,
    QLayerConfig,
    QTensorConfig,
    XInt8Spec,
)

_SPECS: dict[str, tuple[type[QTensorConfig], type[QTensorConfig]]] = {
    "XINT8": (XInt8Spec, XInt8Spec),
    "VINT8": (XInt8Spec, XInt8Spec),
    "A8W8": (Int8Spec, Int8Spec),
    "A16W8": (Int16Spec, Int8Spec),
    "BF16": (BFloat16Spec, BFloat16Spec),
    "BFP16": (BFP16Spec, BFP16Spec),
    "MX6": (MX6Spec, MX6Spec),
    "MX9": (MX9Spec, MX9Spec),
}
"""Activations and weights."""
_FINETUNED = ("XINT8", "A8W8", "A16W8")
_ALGORITHMS: dict[str, type[AlgoConfig]] = {"ADAROUND": AdaRoundConfig, "ADAQUANT": AdaQuantConfig}


def second_form(name: str) -> QConfig | None:
    """Return a new configuration by its name, ``A8W8_ADAROUND`` say; nothing if there is none."""
    base, _, algorithm = name.rpartition("_")
    chosen: list[AlgoConfig] = []
    if base in _FINETUNED and algorithm in _ALGORITHMS:
        name, chosen = base, [_ALGORITHMS[algorithm]()]
    if name not in _SPECS:
        return None
    activation, weight = _SPECS[name]
    return QConfig(QLayerConfig(activation=activation(), weight=weight()), algo_config=chosen)
