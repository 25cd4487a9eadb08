# SPDX-License-Identifier: Apache-2.0
"""Codes of XIR: graphs, ops, attributes, subgraphs and files."""

from opendpu_arch.codes.code import codes

XIR = (
    *codes(
        """
        XIR_ADD_OP_FAIL an op is given an input of another graph
        XIR_FILE_NOT_EXIST there is no such .xmodel
        XIR_INVALID_ARG_OCCUR an argument is missing, or has more ops than it takes
        XIR_INVALID_ATTR_OCCUR a required attribute is missing
        XIR_INVALID_DATA_TYPE a data type is unknown
        XIR_MULTI_DEFINED_OP an op of that name exists already
        XIR_MULTI_REGISTERED_ATTR a definition has an attribute twice
        XIR_MULTI_REGISTERED_OP an op type is registered with two definitions
        XIR_OUT_OF_RANGE an argument has no op at this index
        XIR_READ_PB_FAILURE a file is no .xmodel, truncated or corrupt
        XIR_REMOVE_OP_FAIL an op is still used, or not there
        XIR_SHAPE_UNMATCH shapes and attributes of an op do not fit together
        XIR_SUBGRAPH_CREATE_CHILDREN_FOR_NONLEAF a subgraph has children already
        XIR_SUBGRAPH_INVALID_MERGE_REQUEST_NONCHILD subgraphs to be merged are no children
        XIR_UNDEFINED_ATTR there is no such attribute
        XIR_UNDEFINED_INPUT_ARG an op has no such argument
        XIR_UNREGISTERED_ARG an op type has no such argument
        XIR_UNSUPPORTED_TYPE a value is of no type that attributes have
        """
    ),
    *codes(
        """
        XIR_ACCESS_ADDRESS_OVERFLOW an address is beyond a tensor
        XIR_INTERNAL_ERROR a fault of XIR itself
        XIR_INVALID_ATTR_DEF an attribute's definition is wrong
        XIR_MEANINGLESS_VALUE a value makes no sense
        XIR_MULTI_DEFINED_TENSOR a tensor of that name exists already
        XIR_MULTI_REGISTERED_ARG a definition has an argument twice
        XIR_MULTI_REGISTERED_EXPANDED_ATTR an attribute of all ops is registered twice
        XIR_OPERATION_FAILED a command failed
        XIR_OP_DEF_SHAPE_HINT_MISSING a definition does not say the shape
        XIR_OP_NAME_CONFLICT two ops have one name
        XIR_SUBGRAPH_HAS_CYCLE subgraphs need each other
        XIR_UNDEFINED_OP there is no such op
        XIR_UNEQUIVALENT_ATTRIBUTE attributes differ
        XIR_UNEXPECTED_VALUE a value is not expected
        XIR_UNREGISTERED_ATTR a definition has no such attribute
        XIR_UNREGISTERED_OP an op type is unknown
        XIR_UNSUPPORTED_ROUND_MODE a round mode is unknown
        XIR_VALUE_UNMATCH values differ
        XIR_WRITE_PB_FAILURE a file cannot be written
        XIR_XIR_UNDEFINED_OPERATION an operation is not defined
        XIR_UNKNOWNTYPE_TENSOR a tensor has no type
        """,
        never="cannot come about in a graph of OpenDPU, or is a GraphError or OutputError whose "
        "text says more; unknown op types and attributes are allowed, as in AMD's files",
    ),
    *codes(
        "XIR_PROTECTED_MEMORY the values of a tensor must not be changed",
        never="values of constants are copied out and in",
    ),
    *codes(
        """
        XIR_SUBGRAPH_ALREADY_CREATED_ROOT the root of the subgraphs exists already
        XIR_SUBGRAPH_INVALID_MERGE_REQUEST_NONLEAF subgraphs to be merged have children
        """,
        never="every graph has its root, and subgraphs with children can be merged",
    ),
)  # fmt: skip
