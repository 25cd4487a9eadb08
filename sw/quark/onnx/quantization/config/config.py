# SPDX-License-Identifier: Apache-2.0
"""Whole configurations: Quark's first form, ``Config(QuantizationConfig(…))``, and its second."""

import dataclasses
import enum
from typing import Any

from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType

from quark.onnx.quantization.config.algorithm import AlgoConfig
from quark.onnx.quantization.config.spec import QLayerConfig


@dataclasses.dataclass(eq=False)
class QuantizationConfig:
    """A configuration in Quark's first form; its names and defaults.

    ``enable_npu_cnn`` and ``enable_npu_transformer`` say how it always is; ``optimize_model`` too.
    What else is asked for and there is not here is refused or warned of when a model is quantized.
    """

    calibrate_method: enum.Enum = CalibrationMethod.MinMax
    quant_format: enum.Enum = QuantFormat.QDQ
    activation_type: enum.Enum = QuantType.QInt8
    weight_type: enum.Enum = QuantType.QInt8
    input_nodes: list[str] = dataclasses.field(default_factory=list)
    output_nodes: list[str] = dataclasses.field(default_factory=list)
    op_types_to_quantize: list[str] = dataclasses.field(default_factory=list)
    nodes_to_quantize: list[str] = dataclasses.field(default_factory=list)
    extra_op_types_to_quantize: list[str] = dataclasses.field(default_factory=list)
    nodes_to_exclude: list[str] = dataclasses.field(default_factory=list)
    subgraphs_to_exclude: list[Any] = dataclasses.field(default_factory=list)
    specific_tensor_precision: bool = False
    execution_providers: list[str] = dataclasses.field(
        default_factory=lambda: ["CPUExecutionProvider"]
    )
    per_channel: bool = False
    reduce_range: bool = False
    optimize_model: bool = True
    use_dynamic_quant: bool = False
    use_external_data_format: bool = False
    convert_fp16_to_fp32: bool = False
    convert_nchw_to_nhwc: bool = False
    include_sq: bool = False
    include_rotation: bool = False
    include_cle: bool = True
    include_auto_mp: bool = False
    include_fast_ft: bool = False
    enable_npu_cnn: bool = False
    enable_npu_transformer: bool = False
    debug_mode: bool = False
    crypto_mode: bool = False
    print_summary: bool = True
    ignore_warnings: bool = True
    log_severity_level: int | None = None
    extra_options: dict[str, Any] = dataclasses.field(default_factory=dict)


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
        from quark.onnx.quantization.config.custom_config import get_default_config

        return Config(get_default_config(config_name))
