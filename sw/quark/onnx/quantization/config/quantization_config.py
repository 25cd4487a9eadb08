# SPDX-License-Identifier: Apache-2.0
"""The parts of a configuration in Quark's first form."""

import dataclasses
import enum
from typing import Any

from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType


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
    random_data_reader_input_shape: Any = dataclasses.field(default_factory=list)
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
