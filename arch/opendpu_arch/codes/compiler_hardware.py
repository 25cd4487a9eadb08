# SPDX-License-Identifier: Apache-2.0
"""Codes of the compiler that other hardware has: operators, engines and cores of other DPUs."""

from opendpu_arch.codes.code import codes

OTHER_ENGINES = tuple(
    codes(
        """
        XCOM_OP_PAD_SMF_MISSING data to pad a pooling with is missing
        XCOM_OP_REORG_HEIGHT_NE reorganization: rows are no multiple
        XCOM_OP_REORG_WIDTH_NE reorganization: columns are no multiple
        XCOM_OP_REORG_CHANNEL_NE reorganization: channels are no multiple
        XCOM_OP_REORG_CHANNEL_OVERFLOW reorganization: too many channels
        XCOM_OP_SIGMOID_HEIGHT_NE sigmoid: rows of input and result differ
        XCOM_OP_SIGMOID_WIDTH_NE sigmoid: columns of input and result differ
        XCOM_OP_SIGMOID_CHANNEL_NE sigmoid: channels of input and result differ
        XCOM_OP_ARGMAX_IO_HEIGHT_NE argmax: rows of input and result differ
        XCOM_OP_ARGMAX_IO_WIDTH_NE argmax: columns of input and result differ
        XCOM_OP_ARGMAX_IO_DEPTH_NE argmax: depths of input and result differ
        XCOM_OP_ARGMAX_OC_NOT_UNIQ argmax: the result has several channels
        XCOM_OP_CONCAT_IO_CHANNEL_NE concatenation: channels of inputs and result differ
        XCOM_OP_CORR_ELT_MUL_OUTPUT_ERROR correlation: the depth of the result is wrong
        XCOM_OP_CORR_ELT_MUL_IO_HEIGHT_NE correlation: rows of input and result differ
        XCOM_OP_CORR_ELT_MUL_IO_WIDTH_NE correlation: columns of input and result differ
        XCOM_OP_CORR_ELT_MUL_IO_CHANNEL_NE correlation: channels of input and result differ
        XCOM_OP_CORR_ELT_MUL_INPUT_CHANNEL_NE correlation: channels of the inputs differ
        XCOM_OP_COST_STRIDE_OUTPUT_DEPTH_NE cost volume: stride and depth of the result differ
        XCOM_OP_COST_IO_HEIGHT_NE cost volume: rows of input and result differ
        XCOM_OP_COST_IO_WIDTH_NE cost volume: columns of input and result differ
        XCOM_OP_COST_INPUT_DEPTH_NOT_UNIQ cost volume: the input has a depth
        XCOM_OP_COST_IO_CHANNEL_NE cost volume: the result has not twice the channels
        XCOM_OP_DOWNSAMPLE_IO_HEIGHT_NE downsampling: rows do not fit the factor
        XCOM_OP_DOWNSAMPLE_IO_WIDTH_NE downsampling: columns do not fit the factor
        XCOM_OP_DOWNSAMPLE_IO_CHANNEL_NE downsampling: channels of input and result differ
        XCOM_OP_THRESHOLD_HEIGHT_NE threshold: rows of input and result differ
        XCOM_OP_THRESHOLD_WIDTH_NE threshold: columns of input and result differ
        XCOM_OP_THRESHOLD_CHANNEL_NE threshold: channels of input and result differ
        XCOM_OP_TILE_HEIGHT_NE tile: rows are no multiple
        XCOM_OP_TILE_WIDTH_NE tile: columns are no multiple
        XCOM_OP_TILE_CHANNEL_NE tile: channels are no multiple
        XCOM_OP_UPSAMPLE_HEIGHT_NE upsampling: rows are no multiple
        XCOM_OP_UPSAMPLE_WIDTH_NE upsampling: columns are no multiple
        XCOM_OP_UPSAMPLE_CHANNEL_NE upsampling: channels differ
        XCOM_OP_ELEW_IO_CHANNEL_NE sum: channels of inputs and result differ
        XCOM_OP_MUL_IO_HEIGHT_NE product: rows of inputs and result differ
        XCOM_OP_MUL_IO_WIDTH_NE product: columns of inputs and result differ
        XCOM_OP_MUL_IO_DEPTH_NE product: depths of inputs and result differ
        XCOM_OP_MUL_IO_CHANNEL_NE product: channels of inputs and result differ
        XCOM_OP_MVR_IO_HEIGHT_NE variance reduction: rows of input and result differ
        XCOM_OP_MVR_IO_WIDTH_NE variance reduction: columns of input and result differ
        XCOM_OP_MVR_IO_DEPTH_NE variance reduction: depths of input and result differ
        XCOM_OP_MVR_IO_CHANNEL_NE variance reduction: channels of input and result differ
        """,
        never="shapes are inferred by XIR's rules and checked there (GraphError), so that an op "
        "never reaches the compiler with dimensions that do not fit, or other DPUs have the op",
    )
)

THREE_DIMENSIONS = tuple(
    codes(
        """
        XCOM_OP_TDPTCONV3D_ICG_NOT_ENOUGH too few groups of input channels
        XCOM_OP_TDPTCONV3D_KERNEL_HEIGHT_OVERFLOW too many rows in a kernel
        XCOM_OP_TDPTCONV3D_KERNEL_WIDTH_OVERFLOW too many columns in a kernel
        XCOM_OP_TDPTCONV3D_KERNEL_DEPTH_OVERFLOW too deep a kernel
        XCOM_OP_TDPTCONV3D_STRIDE_HEIGHT_OVERFLOW too large a stride of rows
        XCOM_OP_TDPTCONV3D_STRIDE_WIDTH_OVERFLOW too large a stride of columns
        XCOM_OP_TDPTCONV3D_STRIDE_DEPTH_OVERFLOW too large a stride of depth
        XCOM_OP_TDPTCONV3D_OCG_NOT_ENOUGH too few groups of output channels
        XCOM_OP_DPTCONV3D_KERNEL_HEIGHT_OVERFLOW too many rows in a kernel
        XCOM_OP_DPTCONV3D_KERNEL_WIDTH_OVERFLOW too many columns in a kernel
        XCOM_OP_DPTCONV3D_KERNEL_DEPTH_OVERFLOW too deep a kernel
        XCOM_OP_DPTCONV3D_STRIDE_HEIGHT_OVERFLOW too large a stride of rows
        XCOM_OP_DPTCONV3D_STRIDE_WIDTH_OVERFLOW too large a stride of columns
        XCOM_OP_DPTCONV3D_STRIDE_DEPTH_OVERFLOW too large a stride of depth
        XCOM_OP_DPTCONV3D_OCG_NOT_ENOUGH too few groups of output channels
        XCOM_OP_ELEW3D_IO_CHANNEL_NE sum: channels of inputs and result differ
        XCOM_OP_CONV_KERNEL_DEPTH_OVERFLOW too deep a kernel
        XCOM_OP_CONV_DILATION_DEPTH_ALL_PAD taps that meet nothing but padding in depth
        XCOM_OP_TCONV3D_KERNEL_HEIGHT_OVERFLOW too many rows in a kernel
        XCOM_OP_TCONV3D_STRIDE_WIDTH_OVERFLOW too large a stride of columns
        XCOM_OP_TCONV3D_STRIDE_HEIGHT_OVERFLOW too large a stride of rows
        XCOM_OP_TCONV3D_KERNEL_DEPTH_OVERFLOW too deep a kernel
        XCOM_OP_TCONV3D_DILATION_HEIGHT_OVERFLOW too large a dilation of rows
        XCOM_OP_TCONV3D_DILATION_WIDTH_OVERFLOW too large a dilation of columns
        XCOM_OP_TCONV3D_DILATION_DEPTH_OVERFLOW too large a dilation of depth
        XCOM_OP_TCONV3D_ICG_WEIGHT_DEPTH_OVERFLOW weights of an input channel group do not fit
        XCOM_OP_TCONV3D_KERNEL_DEPTH_OVERLARGE a kernel deeper than the padded input
        XCOM_OP_TCONV3D_KERNEL_WIDTH_OVERLARGE a kernel wider than the padded input
        XCOM_OP_TCONV3D_KERNEL_HEIGHT_OVERLARGE a kernel higher than the padded input
        XCOM_OP_TCONV3D_DILATION_WIDTH_ALL_PAD taps that meet nothing but padding in columns
        XCOM_OP_TCONV3D_DILATION_HEIGHT_ALL_PAD taps that meet nothing but padding in rows
        XCOM_OP_TCONV3D_DILATION_DEPTH_ALL_PADDING taps that meet nothing but padding in depth
        """,
        never="DPUCZDX8G has no operator of three dimensions; it stays on the CPU with "
        "XCOM_OPERATOR_UNUPPORT or XCOM_TENSOR_SHAPE_UNMATCH",
    )
)

OTHER_CORES = tuple(
    codes(
        """
        XCOM_ACGEN_V3ME_BANK_MISSING a convolution of DPUCAHX8H has no bank for its result
        XCOM_AIE_CORE_NUM_MISMATCH the number of AI Engine cores does not fit
        XCOM_AIE_TIMING_CONFIG_MISMATCH timings of AI Engine cores do not fit
        XCOM_AIE_TILING_FAIL a tensor does not fit the memory of an AI Engine core
        XCOM_AIE_UNSUPPORTED_OP AI Engine cores lack an op
        XCOM_AIE_TARGET_INIT_FAILED a target with AI Engine cores cannot be set up
        XCOM_AIE_SHIMTILE_OVERFLOW too many interface tiles
        XCOM_AIE_MEMTILE_OVERFLOW too many memory tiles
        XCOM_AIE_AIETILE_OVERFLOW too many AI Engine tiles
        XCOM_AIE_OUT_OF_BD no buffer descriptor is left
        XCOM_SLNODE_UNREGISTERED a node of a swim lane is of no known kind
        XCOM_UNREGISTERED_SLNODE a node of a swim lane is of no known kind
        XCOM_SWIM_NODE_TYPE_ERROR a node of a swim lane is of another kind
        XCOM_SWIM_OUTPUT_MISSING a swim lane has no bank for its result
        XCOM_SWIM_UNDEFINED_TYPE a swim lane is of no known kind
        XCOM_GET_CHANNEL_FAILED no stream channel is left
        XCOM_GET_PACKET_ID_FAILED no packet id is left
        XCOM_GET_PACKET_TYPE_FAILED a packet has no type
        XCOM_GET_LOCK_ID_FAILED no lock is left
        XCOM_GET_BD_FAILED no buffer descriptor is left
        """,
        never="about DPUs of AI Engine cores or of Alveo boards; OpenDPU compiles for DPUCZDX8G",
    )
)

HARDWARE = (*OTHER_ENGINES, *THREE_DIMENSIONS, *OTHER_CORES)
