# SPDX-License-Identifier: Apache-2.0
"""Messages of the PyTorch quantizer: the guide's Tables 22 (warnings) and 23 (errors)."""

from opendpu_arch.codes.code import Severity, codes

WARNINGS = (
    *codes(
        """
        QUANTIZER_TORCH_CUDA_UNAVAILABLE a GPU was asked for and there is none; the CPU is used
        QUANTIZER_TORCH_DATA_PARALLEL the module is taken out of its torch.nn.DataParallel
        QUANTIZER_TORCH_INSPECTOR_PATTERN an operator is assigned to the DPU, but may not stay there
        QUANTIZER_TORCH_BITWIDTH_MISMATCH the configuration file has another bit width than the
            call; the file holds
        QUANTIZER_TORCH_DEPLOY_MODEL a deployable model was asked for that only training gives
        QUANTIZER_TORCH_DEVICE_MISMATCH the inputs are on another device than the quantizer
        QUANTIZER_TORCH_FINETUNE_IGNORED finetuning was asked for in test mode, which has none
        QUANTIZER_TORCH_MEMORY_SHORTAGE finetuning does not fit into memory and is left out
        QUANTIZER_TORCH_XMODEL_DEVICE no .xmodel is written, because the target is no DPU
        QUANTIZER_TORCH_BATCHNORM_AFFINE a batch normalization without weights gets ones and zeros
        QUANTIZER_TORCH_FLOAT_OP an operator is unknown and stays in float
        QUANTIZER_TORCH_LEAKYRELU a leaky ReLU gets the slope that the DPU has, 26/256
        QUANTIZER_TORCH_TENSOR_TYPE_NOT_QUANTIZABLE a tensor is of no float type and stays as it is
        """,
        table="22", severity=Severity.WARN,
    ),
    *codes(
        """
        QUANTIZER_TORCH_REPLACE_RELU6 a ReLU6 became a ReLU
        QUANTIZER_TORCH_REPLACE_SIGMOID a sigmoid became a hard sigmoid
        QUANTIZER_TORCH_REPLACE_SILU a SiLU became a hard swish
        QUANTIZER_TORCH_REUSED_MODULE a module is called several times; training may lose accuracy
        QUANTIZER_TORCH_DEPRECATED_ARGUMENT the argument `device` has no effect; the model's counts
        QUANTIZER_TORCH_SCALE_VALUE exported scales were not trained
        """,
        table="22", severity=Severity.WARN,
    ),
    *codes(
        """
        QUANTIZER_TORCH_FAST_FINETUNE test mode has a finetuned network, whose parameters were
            not loaded
        """,
        table="sources", severity=Severity.WARN,
    ),
    *codes(
        """
        QUANTIZER_TORCH_CONVERT_XMODEL the quantized graph cannot be converted to XIR
        """,
        table="22", severity=Severity.WARN,
        never="what cannot be written as XIR is an error, QUANTIZER_TORCH_EXPORT_XMODEL",
    ),
    *codes(
        """
        QUANTIZER_TORCH_MATPLOTLIB pictures were asked for and matplotlib is missing
        """,
        table="22", severity=Severity.WARN,
        never="pictures need no matplotlib",
    ),
    *codes(
        """
        QUANTIZER_TORCH_NO_XIR the package xir is missing
        QUANTIZER_TORCH_XIR_MISMATCH the package xir is of another version
        """,
        table="22", severity=Severity.WARN,
        never="the package xir is a part of OpenDPU, of the same version",
    ),
    *codes(
        """
        QUANTIZER_TORCH_TORCH_VERSION this PyTorch cannot export TorchScript
        """,
        table="22", severity=Severity.WARN,
        never="the extra opendpu[torch] asks for a PyTorch that can do everything",
    ),
    *codes(
        """
        QUANTIZER_TORCH_SHIFT_CHECK scales are so far apart that a shift of the DPU cannot
            bridge them
        """,
        table="22", severity=Severity.WARN,
        never="the quantizer makes scales fit the shifts; where it cannot, that is an error",
    ),
    *codes(
        """
        QUANTIZER_TORCH_TENSOR_VALUE_INVALID a tensor has infinities or NaNs and stays as it is
        """,
        table="22", severity=Severity.WARN,
        never="values that are not finite are an error, which names the tensor",
    ),
    *codes(
        """
        QUANTIZER_TORCH_TENSOR_NOT_QUANTIZED tensors have no scale
        """,
        table="22", severity=Severity.WARN,
        never="what stays in float is in the report, with the reason",
    ),
    *codes(
        """
        QUANTIZER_TORCH_EXPORT_XMODEL no .xmodel is written
        """,
        table="22", severity=Severity.WARN,
        never="an export that fails is an error of the same name",
    ),
)  # fmt: skip
"""The run goes on."""

ERRORS = (
    *codes(
        """
        QUANTIZER_TORCH_PYTORCH_TRACE PyTorch cannot trace the module with these inputs
        QUANTIZER_TORCH_QUANT_CONFIG the quantization configuration is wrong
        QUANTIZER_TORCH_SHAPE_MISMATCH shapes of tensors do not fit
        QUANTIZER_TORCH_INSPECTOR_OUTPUT_FORMAT the Inspector's picture is neither SVG nor PNG
        QUANTIZER_TORCH_INSPECTOR_INPUT_FORMAT the Inspector is asked for a target that does not
            exist
        QUANTIZER_TORCH_TRACED_NOT_SUPPORTED the module comes from torch.jit.script
        QUANTIZER_TORCH_BIAS_CORRECTION the file of corrected biases is of another model
        QUANTIZER_TORCH_CALIB_RESULT_MISMATCH the calibration file names other nodes than the
            model has
        QUANTIZER_TORCH_EXPORT_ONNX PyTorch cannot export the quantized module to ONNX
        QUANTIZER_TORCH_EXPORT_XMODEL the graph cannot become an .xmodel
        QUANTIZER_TORCH_FAST_FINETUNE there is no file of finetuned parameters
        QUANTIZER_TORCH_ILLEGAL_BITWIDTH a bit width is no integer, or none of those allowed
        QUANTIZER_TORCH_NO_CALIB_RESULT there is no calibration file
        QUANTIZER_TORCH_NO_CALIBRATION the quantized module was never called while calibrating
        QUANTIZER_TORCH_NO_FORWARD the quantized module was never called before exporting
        QUANTIZER_TORCH_OP_REGIST an operator type is registered twice
        QUANTIZER_TORCH_XMODEL_BATCHSIZE an .xmodel is exported from inputs with another batch
            than 1
        QUANTIZER_TORCH_UNSUPPORTED_OPS an operator cannot be quantized
        QUANTIZER_TORCH_NO_SCRIPT_MODEL there is no TorchScript module to write
        """,
        table="23",
    ),
    *codes(
        """
        QUANTIZER_TORCH_REUSED_MODULE a module to be trained is called several times
        QUANTIZER_TORCH_DATA_PARALLEL_NOT_ALLOWED the module to be trained is a
            torch.nn.DataParallel
        QUANTIZER_TORCH_INPUT_NOT_QUANTIZED no QuantStub is before a module to be trained
        QUANTIZER_TORCH_NOT_A_MODULE an operation to be trained is a function, not a torch.nn.Module
        QUANTIZER_TORCH_QAT_PROCESS_ERROR a deployable model is asked for before a trainable one
        QUANTIZER_TORCH_QAT_DEPLOYABLE_MODEL_ERROR batch normalizations of the trained module
            were fused by the user
        """,
        table="23",
    ),
    *codes(
        """
        QUANTIZER_TORCH_IMPORT_KERNEL the quantizer's kernels cannot be loaded
        """,
        table="23", never="there are no compiled kernels beside PyTorch",
    ),
    *codes(
        """
        QUANTIZER_TORCH_FIX_INPUT_TYPE a fix operator has an argument that ONNX cannot hold
        """,
        table="23", never="fix operators are made by the exporter itself, never by a user",
    ),
    *codes(
        """
        QUANTIZER_TORCH_TORCH_VERSION this PyTorch lacks what a function needs
        """,
        table="23", never="the extra opendpu[torch] asks for a PyTorch that can do everything",
    ),
    *codes(
        """
        QUANTIZER_TORCH_XMODEL_DEVICE an .xmodel is exported from a module on a GPU
        """,
        table="23",
        never="what is exported is not computed on a GPU",
    ),
)  # fmt: skip
"""The run ends."""

APPENDIX = tuple(
    codes(
        """
        QUANTIZER_TORCH_FAST_FINETINE Appendix A's spelling of QUANTIZER_TORCH_FAST_FINETUNE
        QUANTIZER_TORCH_VERSION Appendix A's spelling of QUANTIZER_TORCH_TORCH_VERSION
        QUANTIZER_TORCH_TRACED_NOT_SUPPORT Appendix A's spelling of
            QUANTIZER_TORCH_TRACED_NOT_SUPPORTED
        """,
        never="messages are spelled as in Table 23",
    )
)
"""Ids that Appendix A spells otherwise; the others of Table 23 are there as they are."""

QUANTIZER_TORCH = (*WARNINGS, *ERRORS, *APPENDIX)
