# SPDX-License-Identifier: Apache-2.0
"""Codes that stand for faults inside AMD's compiler: its passes, banks and code generator.

OpenDPU's compiler checks what every pass makes; what breaks a rule is a ``PassError``, with one of
the codes in :mod:`.compiler`.
"""

from opendpu_arch.codes.code import codes

ASSERTED = (
    "a state inside AMD's code generator; OpenDPU's is checked as a whole after every pass "
    "(PassError with XCOM_ACGEN_ERROR), and each of its instructions by the rules of legality"
)
CODE_GENERATOR = tuple(
    codes(
        """
        XCOM_OP_IO_TENSOR_TYPE_ERROR a transfer is of a tensor of the wrong type
        XCOM_OP_MEM_TYPE_ERROR a result is in the wrong memory
        XCOM_OP_POOL_SIZE_ERROR the size of a pooling does not come out
        XCOM_OP_TYPE_UNMATCH an op is of no type that is expected there
        XCOM_OP_TYPE_ERROR an op is of no known type
        XCOM_OP_NONLINEAR_TYPE_ERROR the activation of an op is wrong
        XCOM_OP_CONFIG_MISSING an op type is not in the configuration
        XCOM_DPUOP_DATA_SIZE_ERROR data does not fit or is not aligned to banks
        XCOM_ACGEN_UNSUPPOT_QUANTIZATION an instruction cannot shift so far
        XCOM_ACGEN_NONLINEAR_TYPE_ERROR an instruction has no such activation
        XCOM_ACGEN_BANK_IO_ERROR an instruction has too many addresses
        XCOM_ACGEN_CONV_WEIGHTS_OC_NE weights and result differ in channels
        XCOM_ACGEN_BANK_OC_WEIGHTS_UNALIGNED weights are not aligned to output channels
        XCOM_BANK_UNALIGNED_ADDRESSING an address is inside a word of a bank
        XCOM_ACGEN_CONV_FAKE_WEIGHTS_BANKID weights are in another bank than the first
        XCOM_ACGEN_CONV_FAKE_BIAS_BANKID biases are in another bank than the first
        XCOM_ACGEN_CONV_OCG_WEIGHTS_CNT_NE weights and output channel groups differ in number
        XCOM_ACGEN_KERNEL_ALL_PAD a kernel meets nothing but padding
        XCOM_ACGEN_BANK_ADDR_IN_OUTRANGE an instruction reads from too many addresses
        XCOM_ACGEN_BANK_ADDR_OUT_OUTRANGE an instruction writes to too many addresses
        XCOM_ACGEN_ELEW_IO_ERROR a sum has too many inputs
        XCOM_ACGEN_ELEW_IO_CHANNEL_NE a sum's inputs and result differ in channel groups
        XCOM_ACGEN_ELEW_IO_LENGTH_NE a sum's inputs and result differ in length
        XCOM_ACGEN_MUL_IO_ERROR a product has too many inputs
        XCOM_ACGEN_INPUT_MISSING an instruction has no address to read
        XCOM_ACGEN_BLOB_MISSING a constant is not where it should be
        XCOM_ACGEN_OUTPUT_MISSING an instruction has no address to write
        XCOM_ACGEN_IO_TUPLE_NE inputs and results differ in number
        XCOM_ACGEN_WEIGHTS_NOT_UNIQ weights are in several banks
        XCOM_ACGEN_PRELU_NOT_UNIQ slopes are in several banks
        XCOM_ACGEN_PARAM_NOT_UNIQ parameters are in several banks
        XCOM_ACGEN_BIAS_NOT_UNIQ biases are in several banks
        XCOM_ACGEN_IC_WEIGHTS_CHANNEL_NE input and depthwise weights differ in channels
        XCOM_ACGEN_BIAS_WEIGHTS_CHANNEL_NE biases and depthwise weights differ in channels
        XCOM_ACGEN_INVALIDE_STATUS something was not set up
        XCOM_ACGEN_BANK_JUMP_READ_ERROR a bank cannot be read with gaps
        XCOM_ACGEN_BANK_JUMP_WRITE_ERROR a bank cannot be written with gaps
        XCOM_ACGEN_CONV_ERROR parameters of a convolution exceed the machine's
        XCOM_BANK_CONV_ERROR banks of a convolution are wrong
        XCOM_BANK_INVALID_ID a bank has no such number
        XCOM_OP_DPTCONV_IC_WEIGHT_DEPTH_NE depthwise weights do not fill a bank as expected
        XCOM_OP_CONV_KERNEL_WIDTH_OVERFLOW a kernel is wider than the padded input
        XCOM_OP_CONV_KERNEL_HEIGHT_OVERFLOW a kernel is higher than the padded input
        XCOM_OP_CONV_STRIDE_WIDTH_OVERFLOW a stride is wider than the padded input
        XCOM_OP_CONV_STRIDE_HEIGHT_OVERFLOW a stride is higher than the padded input
        XCOM_OP_CONV_DILATION_WIDTH_ALL_PAD columns of taps that meet nothing but padding
        XCOM_OP_CONV_DILATION_HEIGHT_ALL_PAD rows of taps that meet nothing but padding
        XCOM_OP_CONV_STRIDE_OVERFLOW input channels do not fit the weight banks
        XCOM_ALLOCATE_BANK_FAIL banks cannot be given out
        XCOM_TILING_FAIL a tiling fails inside the compiler
        XCOM_PM_FAIL instructions cannot be made
        XCOM_CODE_GEN_ERROR code cannot be made
        XCOM_DATA_DEPENDCY_MISSING a dependency is missing
        XCOM_DPU_MEMORY_ALLOCATION_FAILED data does not fit banks as it is grouped
        XCOM_MULTIPLE_WEIGHTS an op has several weights
        XCOM_MULTIPLE_BIAS an op has several biases
        XCOM_MULTIPLE_PRELU an op has several slopes
        XCOM_SMF_SPEC_MISSING a block of data has no layout
        XCOM_SMF_MISSING a block of data is missing
        XCOM_SMF_Y_SIZE_ERROR a block has too many rows
        XCOM_SMF_C_SIZE_ERROR a block of channels has rows or padding
        XCOM_SMF_COORDINATE_ERROR a block is at the wrong place
        XCOM_SMF_CONCAT_ERROR blocks of a concatenation do not fit
        XCOM_SMF_BIAS_ERROR a block of biases has the wrong size
        XCOM_SMF_PARAM_ERROR a block of parameters has the wrong size
        XCOM_SMF_TYPE_ERROR a block is of the wrong kind
        XCOM_SMF_TENSOR_TYPE_ERROR a block is of a tensor of the wrong type
        XCOM_SMF_RESERVED_ERROR a dynamic block has the wrong size
        XCOM_SMF_BANK_MANAGEMENT_ERROR banks do not know a block
        XCOM_BANK_SMF_EXIST a bank has a block of that name already
        XCOM_BANK_ADDR_MISSING a bank has no such address
        XCOM_BANK_ADDR_OVERFLOW an address is beyond a bank
        XCOM_BANK_ADDR_ERROR addresses of a bank are out of order
        XCOM_DWCONV_PARAM_REORDER_SIZE_UNMATCH reordered depthwise weights have another size
        XCOM_CONV_PARAM_REORDER_SIZE_UNMATCH reordered weights have another size
        """,
        never=ASSERTED,
    )
)

TOOLBOX = tuple(
    codes(
        """
        XCOM_INVOKE_BASE a function of a base class was called
        XCOM_MEANINGLESS_VALUE a value means nothing
        XCOM_UNDEFINED_STATE a state is not defined
        XCOM_LOGICAL_CONDITION_ERROR a condition does not hold
        XCOM_LEAF_SUBGRAPH_REQUIRED a subgraph has children
        XCOM_PASS_DEPENDENCY a pass ran before one that it needs
        XCOM_PASS_DEPENDENCY_ERROR a pass ran before one that it needs
        XCOM_PASS_UNREGISTERED a pass is not registered
        XCOM_PASS_NULL_POINTER an object is missing
        XCOM_PASS_TARGET_UNIMPLEMENTED a pass does not know the target
        XCOM_PASS_GRAPH_ATTR_MISSING a graph lacks an attribute
        XCOM_PASS_OP_INVALID_ATTR an attribute of an op is wrong
        XCOM_PASS_OP_ATTR_MISMATCH an attribute of an op is not as expected
        XCOM_PASS_INVALID_BLOB_NUMBER an op has a wrong number of inputs
        XCOM_PASS_OP_ATTR_MISSING an op lacks an attribute
        XCOM_PASS_TENSOR_SIZE_ERROR a tensor has a wrong size
        XCOM_PASS_TENSOR_SIZE_MISMATCH tensors differ in size
        XCOM_PASS_TENSOR_DIMS_MISMATCH a tensor has other dimensions
        XCOM_DEBUGMANAGER_NOT_RECORDING nothing is recorded
        XCOM_NO_PASS_RECORDED no pass was recorded
        XCOM_DEBUGMANAGER_UNRECORDED_OP an op was not recorded
        XCOM_EXECUTE_SYSTEM_CMD_FAILED a command of the system failed
        XCOM_DATA_OUTRANGE a value is out of range
        XCOM_DATA_SEGMENT_FAULT an index is beyond a tensor
        XCOM_TYPE_UNMATCH types differ
        XCOM_OPERATION_FAILED an operation failed
        XCOM_UNREGISTERED_STRATEGY of dead code, says the guide
        XCOM_INVALID_ARCH_PARAM of dead code, says the guide
        XCOM_INVALID_SUPERLAYER a superlayer is wrong
        XCOM_SUBGRAPH_ATTR_MISSING a subgraph lacks an attribute
        XCOM_ASSIGN_OUTPUT_OPS_FAILED output ops cannot be set
        XCOM_DDR_REG_ID_SIZE_UNMATCH address registers do not fit
        XCOM_DDR_OPTIMIZATION_0_FAILED places in DDR cannot be improved
        XCOM_DDR_OPTIMIZATION_1_FAILED places in DDR cannot be improved
        XCOM_TRANSPOSED_CONV_WEIGHTS_DDR_OPTIMIZATION_ERROR weights of a transposed convolution
            cannot be placed
        XCOM_DDR_PARAM_SPACE_INITIALIZATION_SIZE_ERROR the segment of constants has a wrong size
        XCOM_ADDITION_OVERFLOW an addition overflows
        XCOM_INT_COMPOSITION_INVALID_RANGE an integer cannot be composed
        XCOM_TO_XINT_DATA_SIZE_UNMATCH data does not fit the width of an integer type
        XCOM_REVERT_XINT_DATA_SIZE_UNMATCH data does not fit the width it had
        XCOM_PARTITIONENGINE_HINTS_ERROR hints for the partition are wrong
        XCOM_PARSE_FAIL structured data cannot be read
        XCOM_PARTITION_REPEATED_REGISTRATION a check is registered twice
        """,
        never="a helper inside AMD's compiler; where OpenDPU has such a state, it is a rule that "
        "opendpu.compiler.verify checks, with the code of the pass that broke it",
    )
)

INTERNAL = (*CODE_GENERATOR, *TOOLBOX)
