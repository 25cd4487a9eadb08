# SPDX-License-Identifier: Apache-2.0
"""Codes that each library inside AMD's compiler has of its own, for much the same faults."""

from opendpu_arch.codes.code import codes

AGAIN = (
    "a fault inside AMD's compiler, of {}; OpenDPU has no such library, and gives the code of the "
    "fault without the library where a model is at fault"
)

STAGES = (
    *codes(
        """
        XCOM_COMGRAPH_OP_MISSING an op is missing
        XCOM_COMGRAPH_OP_CONNECTION_MISSING an edge is missing
        XCOM_COMGRAPH_OP_CONNECTION_INVALID an edge is wrong
        XCOM_COMGRAPH_ATTR_NOT_ASSIGNED an attribute is not set
        XCOM_COMGRAPH_GRAPH_INVALID_STRUCTURE a pattern of the graph is not expected
        XCOM_COMGRAPH_SUBGRAPH_MISSING a subgraph is missing
        XCOM_COMGRAPH_BANK_UNEXPECTED_STATE banks are in a wrong state
        XCOM_COMGRAPH_BANK_INFO_MISMATCH two ops want different banks
        """,
        never=AGAIN.format("the graph of a computation"),
    ),
    *codes(
        """
        XCOM_FRONTEND_SUBGRAPH_MISSING a subgraph is missing
        XCOM_FRONTEND_NULL_POINTER an object is missing
        XCOM_FRONTEND_UNEXPECTED_STATE a state is impossible
        XCOM_FRONTEND_GRAPH_OP_MISSING an op is missing
        XCOM_FRONTEND_GRAPH_TEMPLATE_MISMATCH a pattern does not fit its template
        XCOM_FRONTEND_GRAPH_LEVEL_MISMATCH a graph is of another level
        XCOM_FRONTEND_GRAPH_ATTR_MISSING a graph lacks an attribute
        XCOM_FRONTEND_GRAPH_INVALID_STRUCTURE a pattern of the graph is not expected
        XCOM_FRONTEND_OP_INVALID_ATTR an attribute of an op is wrong
        XCOM_FRONTEND_OP_INVALID_BLOB_NUMBER an op has a wrong number of inputs
        XCOM_FRONTEND_OP_UNSUPPORTED_BLOB_NUMBER the DPU has no op of so many inputs
        XCOM_FRONTEND_OP_UNSUPPORTED_ATTR the DPU has no such attribute
        XCOM_FRONTEND_OP_UNSUPPORTED_MODE an op has no such mode
        XCOM_FRONTEND_OP_UNSUPPORTED_NONLINEAR the DPU has no such activation
        XCOM_FRONTEND_OP_UNSUPPORTED the DPU has no such op
        XCOM_FRONTEND_OP_ATTR_MISMATCH an attribute of an op is not as expected
        XCOM_FRONTEND_QUANT_ATTR_MISSING a tensor has no scale
        XCOM_FRONTEND_QUANT_ATTR_OUT_OF_RANGE a shift is beyond the DPU
        XCOM_FRONTEND_TENSOR_DIMS_MISMATCH a tensor has other dimensions
        XCOM_FRONTEND_TENSOR_SHAPE_MISMATCH shapes of two tensors differ
        XCOM_FRONTEND_TENSOR_SIZE_MISMATCH sizes of two tensors differ
        XCOM_FRONTEND_DATA_TYPE_MISMATCH types of two tensors differ
        XCOM_FRONTEND_BITWIDTH_MISMATCH a tensor has other bits
        """,
        never=AGAIN.format("its reading of the graph"),
    ),
    *codes(
        """
        XCOM_GENINST_NULL_POINTER an object is missing
        XCOM_GENINST_INVALID_VALUE a value is wrong
        XCOM_GENINST_GRAPH_INVALID_STRUCTURE a pattern of the graph is not expected
        XCOM_GENINST_OP_UNSUPPORTED the DPU has no such op
        XCOM_GENINST_OP_UNSUPPORTED_MODE an op has no such mode
        XCOM_GENINST_OP_UNSUPPORTED_NONLINEAR the DPU has no such activation
        XCOM_GENINST_OP_INVALID_BLOB_NUMBER an op has a wrong number of inputs
        XCOM_GENINST_TARGET_UNIMPLEMENTED the target is not known
        XCOM_GENINST_TARGET_BANK_ERR an op has no bank for its result
        XCOM_GENINST_GRAPH_TEMPLATE_MISMATCH a pattern does not fit its template
        XCOM_GENINST_BANK_INFO_MISMATCH two ops want different banks
        XCOM_GENINST_TILING_FAIL no tiling fits
        XCOM_GENINST_CODE_GEN_ERROR code cannot be made
        """,
        never=AGAIN.format("its code generator"),
    ),
    *codes(
        """
        XCOM_OPFACTORY_ILLEGAL_NAME a name is wrong
        XCOM_OPFACTORY_UNEXPECTED_STATE a state is impossible
        XCOM_OPFACTORY_GRAPH_INVALID_STRUCTURE a pattern of the graph is not expected
        XCOM_OPFACTORY_OP_INVALID_BLOB_NUMBER an op has a wrong number of inputs
        XCOM_OPFACTORY_OP_UNSUPPORTED_BLOB_NUMBER the DPU has no op of so many inputs
        XCOM_OPFACTORY_OP_UNSUPPORTED_MODE an op has no such mode
        XCOM_OPFACTORY_OP_UNSUPPORTED_NONLINEAR_TYPE the DPU has no such activation
        XCOM_OPFACTORY_OP_UNSUPPORTED the DPU has no such op
        """,
        never=AGAIN.format("its library of ops"),
    ),
    *codes(
        """
        XCOM_OPTIMIZE_GRAPH_INVALID_STRUCTURE a pattern of the graph is not expected
        XCOM_OPTIMIZE_GRAPH_OPERATION_FAILED a change of the graph failed
        XCOM_OPTIMIZE_OP_UNSUPPORTED_ATTR the DPU has no such attribute
        XCOM_OPTIMIZE_OP_INVALID_BLOB_NUMBER an op has a wrong number of inputs
        XCOM_OPTIMIZE_TENSOR_SHAPE_INVALID a shape is wrong
        XCOM_OPTIMIZE_TARGET_BANK_ERR an op has no bank for its result
        XCOM_OPTIMIZE_OP_ATTR_MISMATCH an attribute of an op is not as expected
        """,
        never=AGAIN.format("its optimizations"),
    ),
    *codes(
        """
        XCOM_UTIL_NULL_POINTER an object is missing
        XCOM_UTIL_OPERATION_DENIED an operation is not allowed
        XCOM_UTIL_PARSE_FAIL structured data cannot be read
        XCOM_UTIL_OP_UNSUPPORTED_NONLINEAR_TYPE the DPU has no such activation
        XCOM_UTIL_OP_UNSUPPORTED the DPU has no such op
        XCOM_UTIL_TENSOR_DIMS_MISMATCH a tensor has other dimensions
        XCOM_UTIL_TENSOR_SHAPE_INVALID a shape is wrong
        XCOM_UTIL_DATA_TYPE_INVALID a type is wrong
        XCOM_UTIL_ATTR_OUT_OF_RANGE a value is out of range
        XCOM_UTIL_INVALID_VALUE a value is wrong
        XCOM_UTIL_INVALID_VALUE_RANGE a range is wrong
        XCOM_UTIL_ADDITION_OVERFLOW an addition overflows
        XCOM_UTIL_DATA_SIZE_MISMATCH sizes of data differ
        XCOM_UTIL_BANK_ALLOC_FAILED banks cannot be given out
        """,
        never=AGAIN.format("its helpers"),
    ),
    *codes(
        """
        XCOM_BANKASSIGN_GRAPH_INVALID_STRUCTURE a pattern of the graph is not expected
        XCOM_BANKASSIGN_INVALID_ITEM an item is not there
        XCOM_BANKASSIGN_OUT_OF_BANK_SIZE the banks are too small
        XCOM_BANKASSIGN_TARGET_ENGINE_UNREGISTERED the target has no such engine
        XCOM_BANKASSIGN_INVALID_VALUE a value is wrong
        XCOM_BANKASSIGN_TARGET_BANK_ERR an op has no bank for its result
        XCOM_BANKASSIGN_BANK_UNEXPECTED_STATE banks are in a wrong state
        XCOM_BANKASSIGN_OP_INVALID_BLOB_NUMBER an op has a wrong number of inputs
        XCOM_BANKASSIGN_BANK_INFO_MISMATCH two ops want different banks
        """,
        never=AGAIN.format("its assignment of banks"),
    ),
    *codes(
        """
        XCOM_PARTITION_GRAPH_INVALID_STRUCTURE a pattern of the graph is not expected
        XCOM_PARTITION_NULL_POINTER an object is missing
        """,
        never=AGAIN.format("its partition"),
    ),
    *codes(
        """
        XCOM_DDRALLOC_NULL_POINTER an object is missing
        XCOM_DDRALLOC_UNEXPECTED_STATE a state is impossible
        XCOM_DDRALLOC_INVALID_ITEM an item is not there
        XCOM_DDRALLOC_ITEM_UNDEFINED an item is not defined
        XCOM_DDRALLOC_DATA_SIZE_MISMATCH sizes of data differ
        XCOM_DDRALLOC_MEM_ACCESS_OVERFLOW an access is beyond memory
        XCOM_DDRALLOC_OUT_OF_MEM DDR is too small
        XCOM_DDRALLOC_FEATURE_UNIMPLEMENT an optimization is missing
        XCOM_DDRALLOC_OPERATION_DENIED an operation is not allowed
        XCOM_DDRALLOC_TARGET_UNIMPLEMENTED the target is not known
        XCOM_DDRALLOC_ASSIGNMENT_STATE_ERROR places are in a wrong state
        XCOM_DDRALLOC_PARAM_SPACE_INITIALIZATION_SIZE_ERROR constants have a wrong size
        XCOM_DDRALLOC_GRAPH_LEVEL_MISMATCH a graph is of another level
        XCOM_DDRALLOC_GRAPH_OP_MISSING an op is missing
        XCOM_DDRALLOC_GRAPH_INVALID_STRUCTURE a pattern of the graph is not expected
        XCOM_DDRALLOC_OP_UNSUPPORTED the DPU has no such op
        XCOM_DDRALLOC_OP_UNSUPPORTED_MODE an op has no such mode
        XCOM_DDRALLOC_OP_INVALID_BLOB_NUMBER an op has a wrong number of inputs
        XCOM_DDRALLOC_OP_UNSUPPORTED_NONLINEAR_TYPE the DPU has no such activation
        XCOM_DDRALLOC_TENSOR_DIMS_MISMATCH a tensor has other dimensions
        XCOM_DDRALLOC_TENSOR_SHAPE_MISMATCH shapes of two tensors differ
        XCOM_DDRALLOC_TENSOR_SIZE_ERROR a size is wrong
        XCOM_DDRALLOC_TENSOR_SIZE_MISMATCH sizes of two tensors differ
        """,
        never=AGAIN.format("its allocation of DDR"),
    ),
)
