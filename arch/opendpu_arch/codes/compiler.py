# SPDX-License-Identifier: Apache-2.0
"""Codes of the compiler about models, options and targets."""

from opendpu_arch.codes.code import codes

REASONS = tuple(
    codes(
        """
        XCOM_OPERATOR_UNUPPORT the DPU has no such op
        XCOM_OP_CONV_PARAM_ERROR a stride, group or channel count of a layer is beyond the DPU
        XCOM_UNSUPPORT_KERNEL_SIZE a kernel is larger than the DPU's
        XCOM_PAD_KERNEL_SIZE_UNMATCH padding does not fit the kernel
        XCOM_TILING_SIZE_ERROR a layer does not fit the banks
        XCOM_ACGEN_POOL_KERNEL_OUTRANGE a window of a pooling is larger than the DPU's
        XCOM_ACGEN_PRELU_ERROR slopes of a PReLU or their shifts are beyond the DPU
        XCOM_UNSUPPORT_QUANTIZATION scales are missing, or beyond the DPU's shifts
        XCOM_UNSUPPORT_NONLINEAR_TYPE the DPU has no such activation
        XCOM_TENSOR_DIMENSION_UNMATCH a batch, or an axis, is not what the DPU takes
        XCOM_TENSOR_SHAPE_UNMATCH shapes of operands do not fit the DPU's
        XCOM_TOO_MANY_INPUTS a sum or product has too many operands
        XCOM_UNEXPECTED_VALUE an attribute has a value that the DPU cannot have
        XCOM_UNIMPLEMENT the DPU has the op, but not in this form
        """
    )
)
"""Reasons for the CPU; the compilation goes on."""

REFUSALS = tuple(
    codes(
        """
        XCOM_INVALID_GRAPH the graph is compiled already, or a pass broke it
        XCOM_SIZE_UNMATCH an input shape does not fit the model
        XCOM_ITEM_UNDEFINED an option, input or dimension does not exist
        XCOM_STR_PARSE_FAILED options are no JSON and no key=value
        XCOM_USER_INVALID_CMD_PARAM the value of an option is not one of those allowed
        XCOM_USER_INVALID_OUTPUT_OPS the graph has none of the output ops asked for
        XCOM_PASS_MISS there is no such pass
        XCOM_FILE_NOT_EXISTS there is no such model file
        XCOM_DIR_OPEN_FILE_FAILED a folder for results cannot be made
        XCOM_TARGET_REQUIRED no target is given
        XCOM_UNSUPPORT_ROUND_MODE a fix op has an unknown round mode
        """
    )
)
"""What ends a compilation."""

BROKEN = tuple(
    codes(
        """
        XCOM_UNACCEPTABLE_SUBGRAPH the partition breaks a rule
        XCOM_VALUE_UNMATCH the layers of a part break a rule
        XCOM_DDR_ADDR_ASSIGNMENT_FAILED places in DDR break a rule
        XCOM_ACGEN_ERROR instructions break a rule
        """
    )
)
"""Bugs of the compiler, found by its own checks."""

TARGETS = tuple(
    codes(
        """
        XCOM_UNEXPECTED_ARCH the architecture is unknown
        XCOM_ARCH_UNREGISTERED the architecture is unknown
        XCOM_ARCH_INVALID_NAME the architecture has no such name
        XCOM_INVALID_TARGET the target is no DPU
        XCOM_USER_INVALID_TARGET the target on the command line is no DPU
        """,
        never="targets are looked up by opendpu_arch.target, with a code TARGET_FACTORY_*",
    )
)

FILES = tuple(
    codes(
        """
        XCOM_USER_FILE_NOT_EXISTS there is no such file
        XCOM_USER_FILE_OPERATION_ERR a file cannot be read or written
        XCOM_DIRECTORY_NOT_EXIST there is no such folder
        XCOM_USER_DIRECTORY_NOT_EXIST there is no such folder
        """,
        never="models that cannot be read give XCOM_FILE_NOT_EXISTS or XIR_FILE_NOT_EXIST, folders "
        "are made, and what cannot be written is an OutputError that names the reason",
    )
)

NEEDLESS = (
    *codes(
        """
        XCOM_DIRECTORY_EXIST a folder exists already
        XCOM_USER_DIRECTORY_ALREADY_EXIST a folder exists already
        """,
        never="folders may exist; files in them are replaced when the new ones are complete",
    ),
    *codes(
        """
        XCOM_INVALID_COMPILE_MODE the mode of compilation is unknown
        XCOM_USER_INVALID_COMPILE_MODE the mode of compilation is unknown
        """,
        never="there is one mode of compilation",
    ),
    *codes(
        "XCOM_GRAPH_REQUIRED no graph is given",
        never="the graph is a required argument",
    ),
    *codes(
        "XCOM_USER_INVALID_OUTPUT_TENSORS there is no such output tensor",
        never="outputs are chosen by op (XCOM_USER_INVALID_OUTPUT_OPS)",
    ),
    *codes(
        "XCOM_USER_UNSUPPORTED_SYSTEM the operating system lacks a function",
        never="everything runs wherever Python and its packages do",
    ),
)

COMPILER = (*REASONS, *REFUSALS, *BROKEN, *TARGETS, *FILES, *NEEDLESS)
