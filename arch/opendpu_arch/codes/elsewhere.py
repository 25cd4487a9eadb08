# SPDX-License-Identifier: Apache-2.0
"""Codes of TensorFlow 1's tools and parts of others that OpenDPU does not have; and of WeGO."""

from opendpu_arch.codes.code import codes

COVERED = "OPTIMIZER_UNSUPPORTED_OP_ERROR and OPTIMIZER_INVALID_ARGUMENT_ERROR say it"
OPTIMIZER = (
    *codes(
        """
        OPTIMIZER_DATA_PARALLEL_NOT_ALLOWED_ERROR the module is a torch.nn.DataParallel
        OPTIMIZER_INVALID_ANA_RESULT_ERROR the result of an analysis is not of this model
        OPTIMIZER_INVALID_ARGUMENT_ERROR an argument is wrong
        OPTIMIZER_TORCH_MODULE_ERROR what should be a torch.nn.Module is none
        OPTIMIZER_NO_ANA_RESULT_ERROR no analysis was made
        OPTIMIZER_SUBNET_ERROR no subnetwork was searched for
        OPTIMIZER_UNSUPPORTED_OP_ERROR nothing of the model can be pruned
        OPTIMIZER_IO_ERROR a file cannot be read or written
        OPTIMIZER_MODEL_ANALYSIS_ERROR the analysis failed
        OPTIMIZER_PARSE_GRAPH_FAILED the model cannot be read
        OPTIMIZER_KERAS_MODEL_ERROR the model is none of Keras
        """
    ),
    *codes(
        """
        OPTIMIZER_NOT_EXCLUDE_NODE_ERROR nodes have to be excluded
        """,
        never="Channels that cannot go stay without being excluded",
    ),
    *codes(
        """
        OPTIMIZER_KERAS_LAYER_ERROR a layer is none of Keras
        OPTIMIZER_DATA_FORMAT_ERROR weights cannot be saved in this format
        OPTIMIZER_INVALID_GRAPH the graph is wrong
        OPTIMIZER_WEIGHTS_NOT_FOUND an operation has no weights
        """,
        never=COVERED,
    ),
)

SPELLING = "given in the spelling of table 54"
TENSORFLOW = (
    *codes(
        """
        QUANTIZER_TF2_UNSUPPORTED_MODEL the model is neither sequential nor functional, or is not
          quantized
        QUANTIZER_TF2_INVALID_CALIB_DATASET calibration data is wrong
        QUANTIZER_TF2_INVALID_INPUT_SHAPE a shape is wrong
        QUANTIZER_TF2_INVALID_TARGET a target is wrong
        QUANTIZER_TF1_INVALID_BITWIDTH a bit width is wrong
        QUANTIZER_TF1_INVALID_METHOD a method is wrong
        QUANTIZER_TF1_INVALID_TARGET_DTYPE a data type is wrong
        QUANTIZER_TF1_INVALID_INPUT there is no frozen graph
        QUANTIZER_TF1_LENGTH_MISMATCH shapes and inputs differ in number
        QUANTIZER_TF1_INVALID_INPUT_FN the function that gives data cannot be imported
        QUANTIZER_TF1_MISSING_QUANTIZE_INFO there is no calibration
        """
    ),
    *codes(
        """
        QUANTIZER_TF1_UNSUPPORTED_OP an operator cannot be converted
        QUANTIZER_TF2_UNSUPPORTED_LAYER a layer cannot be quantized
        """,
        never="what cannot be quantized stays in float, and runs on the CPU",
    ),
    *codes(
        """
        Quantize_TF1_Invalid_Input as QUANTIZER_TF1_INVALID_INPUT
        Quantize_TF1_Invalid_Bitwidth as QUANTIZER_TF1_INVALID_BITWIDTH
        Quantize_TF1_Invalid_Method as QUANTIZER_TF1_INVALID_METHOD
        Quantize_TF1_Length_Mismatch as QUANTIZER_TF1_LENGTH_MISMATCH
        Quantize_TF1_Invalid_Input_Fn as QUANTIZER_TF1_INVALID_INPUT_FN
        Quantize_TF1_Invalid_Target_Dtype as QUANTIZER_TF1_INVALID_TARGET_DTYPE
        Quantize_TF1_Unsupported_Op as QUANTIZER_TF1_UNSUPPORTED_OP
        """,
        table="13", never=SPELLING,
    ),
    *codes(
        """
        Quantizer_TF2_Unsupported_Layer as QUANTIZER_TF2_UNSUPPORTED_LAYER
        Quantizer_TF2_Unsupported_Model as QUANTIZER_TF2_UNSUPPORTED_MODEL
        Quantizer_TF2_Invalid_Input_Shape as QUANTIZER_TF2_INVALID_INPUT_SHAPE
        Quantizer_TF2_Invalid_Calib_Dataset as QUANTIZER_TF2_INVALID_CALIB_DATASET
        Quantizer_TF2_Invalid_Target as QUANTIZER_TF2_INVALID_TARGET
        """,
        table="18", never=SPELLING,
    ),
)  # fmt: skip

WEGO = (
    *codes(
        """
        WEGO_TORCH_INVALID_ARGUMENT an argument is wrong
        WEGO_TORCH_INVALID_MODEL a model is wrong
        WEGO_TORCH_UNIMPLEMENTED something is missing
        WEGO_TORCH_RUNTIME_ERROR a run failed
        """,
    ),
    *codes(
        """
        WEGO_TORCH_UNKNOWN_ERROR an error without a name
        WEGO_TORCH_INTERNAL_ERROR a fault of WeGO itself
        WEGO_TORCH_OUT_OF_RANGE an index is out of range
        """,
        never="OpenDPU's errors have names and say where they come from",
    ),
)
