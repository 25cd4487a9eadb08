# SPDX-License-Identifier: Apache-2.0
"""Whole configurations: Quark's first form, ``Config(QuantizationConfig(…))``, and its second."""

import dataclasses
from typing import Any

from quark.onnx.quantization.config.algorithm import AlgoConfig
from quark.onnx.quantization.config.defaults import get_default_config
from quark.onnx.quantization.config.quantization_config import QuantizationConfig
from quark.onnx.quantization.config.spec import QLayerConfig

__all__ = ["Config", "QConfig", "QuantizationConfig"]


@dataclasses.dataclass(eq=False)
class Config:
    """A configuration for a whole model, in Quark's first form."""

    global_quant_config: QuantizationConfig


class QConfig:
    """A configuration in Quark's second form.

    Parameters
    ----------
    global_config
        What holds for all layers.
    specific_layer_config
        Other configurations, each for some nodes.
    layer_type_config
        The same for some operators; those of ``None`` are not quantized.
    exclude
        Nodes that are not quantized.
    algo_config
        What is done beside: equalization and finetuning.
    use_external_data_format
        Whether large constants go to a file beside the model.
    extra_options, options
        As those of the first form.
    """

    def __init__(
        self,
        global_config: QLayerConfig,
        specific_layer_config: dict[QLayerConfig, list[Any]] | None = None,
        layer_type_config: dict[QLayerConfig | None, list[str]] | None = None,
        exclude: list[Any] | None = None,
        algo_config: list[AlgoConfig] | None = None,
        use_external_data_format: bool = False,
        extra_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.global_config = global_config
        self.specific_layer_config = specific_layer_config or {}
        self.layer_type_config = layer_type_config or {}
        self.exclude = exclude or []
        self.algo_config = algo_config or []
        self.use_external_data_format = use_external_data_format
        self.extra_options = {**(extra_options or {}), **options}

    @staticmethod
    def get_default_config(config_name: str) -> Config:
        """Return a configuration by its name, in the first form.

        Raises
        ------
        UnsupportedError
            There is none of this name here.
        """
        return Config(get_default_config(config_name))
