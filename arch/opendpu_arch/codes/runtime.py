# SPDX-License-Identifier: Apache-2.0
"""Codes of the runtime: VART, and the Vitis AI Library on top of it."""

from opendpu_arch.codes.code import codes

VART = (
    *codes(
        """
        VART_OPEN_DEVICE_FAIL no such device is installed
        VART_FUNC_NOT_SUPPORT a runner has no such mode
        VART_XMODEL_ERROR a compiled graph lacks code or registers
        VART_TENSOR_INFO_ERROR inputs or outputs are missing, unknown or of another type
        VART_DEVICE_MISMATCH a program is for another DPU
        VART_OUT_OF_RANGE there is no subgraph with this number
        VART_TENSOR_BUFFER_INVALID an array is read-only, has gaps, or no memory
        VART_DPU_TIMEOUT_ERROR a job takes longer than it may
        VART_GRAPH_FINGERPRINT_ERROR a subgraph does not say for which DPU it is
        VART_TENSOR_BUFFER_CHECK_ERROR a buffer has not the bytes of whole elements
        VART_TENSOR_BUFFER_DIMS_ERROR an array has another shape than its tensor
        VART_SIZE_MISMATCH a golden file has not the bytes of its tensor
        VART_DPU_EXEC_ERROR the process that ran a job has ended
        VART_CONTROLLER_DUMP_FOLDER_CREATE_ERROR a folder of dumps cannot be made
        """
    ),
    *codes(
        """
        VART_LOAD_XCLBIN_FAIL a bitstream cannot be loaded
        VART_LOCK_DEVICE_FAIL a device cannot be locked
        VART_DPU_INFO_ERROR a board does not tell of its DPU
        VART_DEVICE_BUSY a device is busy
        VART_DPU_ALLOC_ERROR no DPU can be had
        VART_XRT_NULL_PTR a handle of XRT is missing
        VART_XRT_DEVICE_BUSY XRT's device is busy
        VART_XRT_READ_ERROR XRT cannot read
        VART_XRT_READ_CU_ERROR XRT cannot read registers
        VART_XRT_FUNC_FAULT a function of XRT failed
        VART_XRT_DEVICE_AVAILABLE_ERROR XRT has no device
        VART_XRT_CU_AVAILABLE_ERROR XRT has no compute unit
        VART_XRT_OPEN_CONTEXT_ERROR XRT opens no context
        VART_XRM_CREATE_CONTEXT_ERROR XRM opens no context
        VART_XRM_CONNECT_ERROR XRM cannot be reached
        VART_XRM_ACQUIRE_CU_ERROR XRM gives no compute unit
        VART_XCLBIN_READ_ERROR a bitstream cannot be read
        VART_XCLBIN_DOWNLOAD_ERROR a bitstream cannot be loaded
        VART_XCLBIN_PATH_INVALID no bitstream is set
        VART_CONTROLLER_VIR_MEMORY_ALLOC_ERROR the host has no addresses left
        VART_DEVICE_MEMORY_ALLOC_ERROR the board has no memory left
        VART_DEVICE_BUFFER_ALLOC_ERROR memory of the board is of no known type
        """,
        never="about boards and bitstreams; devices are simulators, and wait where all are busy",
    ),
    *codes(
        """
        VART_GRAPH_ERROR a graph is wrong
        VART_SYSTEM_ERROR a file or folder cannot be used
        VART_NULL_PTR a pointer is missing
        VART_VERSION_MISMATCH versions differ
        VART_VERSION_MISMATCH_ERROR a subgraph's version is not the bitstream's
        VART_TENSOR_BUFFER_CREATE_ERROR a buffer cannot be made
        """,
        never="a more telling exception is raised: GraphError, OutputError, TensorError with "
        "another code, or the fault that stopped the program (AddressError, DeadlockError …)",
    ),
    *codes(
        """
        VART_CONTROLLER_DUMP_SUBFOLDER_CREATE_ERROR a folder inside that of dumps cannot be made
        VART_CONTROLLER_DUMP_ERROR a dump cannot be written
        """,
        never="a dump is an output like any other: OutputError",
    ),
)  # fmt: skip

LIBRARY = (
    *codes(
        """
        VAILIB_CPU_RUNNER_CPU_OP_NOT_FIND nothing computes an op of a CPU subgraph
        VAILIB_GRAPH_RUNNER_NOT_FIND nothing makes an input of a subgraph, or an output is missing
        """
    ),
    *codes(
        """
        VAILIB_CPU_RUNNER_OPEN_LIB_ERROR a library of ops cannot be opened
        VAILIB_CPU_RUNNER_LOAD_LIB_SYM_ERROR a library lacks an op
        VAILIB_CPU_RUNNER_TENSOR_BUFFER_NOT_FOUND a buffer of that name is missing
        VAILIB_CPU_RUNNER_TENSOR_BUFFER_NOT_CONTINUOUS a buffer has gaps
        VAILIB_CPU_RUNNER_READ_FILE_ERROR a file cannot be read
        VAILIB_CPU_RUNNER_WRITE_FILE_ERROR a file cannot be written
        VAILIB_GRAPH_RUNNER_DPU_BATCH_ERROR batches of DPU subgraphs differ
        VAILIB_GRAPH_RUNNER_NOT_SUPPORT the graph runner lacks a function
        VAILIB_GRAPH_RUNNER_NOT_OVERRIDE a function is not overridden
        """,
        never="CPU subgraphs are computed by onnxruntime on arrays, and ops of users are Python "
        "classes: there are no libraries, buffers or files in between",
    ),
    *codes(
        """
        VAILIB_DPU_TASK_NOT_FIND model files are missing
        VAILIB_DPU_TASK_OPEN_ERROR a file cannot be opened
        VAILIB_DPU_TASK_CONFIG_PARSE_ERROR the configuration of a model cannot be read
        VAILIB_DPU_TASK_TENSORS_EMPTY a runner has no inputs
        VAILIB_DPU_TASK_SUBGRAPHS_EMPTY a runner has no subgraphs
        VAILIB_MATH_NOT_SUPPORT the library's arithmetic lacks a function
        VAILIB_MATH_FIX_POS_ERROR the table of its softmax has no such scale
        VAILIB_MODEL_CONFIG_NOT_FIND the configuration of a model is missing
        VAILIB_MODEL_CONFIG_OPEN_ERROR the configuration of a model cannot be opened
        VAILIB_MODEL_CONFIG_CONFIG_PARSE_ERROR the configuration of a model cannot be read
        VAILIB_BENCHMARK_LIST_EMPTY a benchmark has no images
        VAILIB_DEMO_CANVAS_ERROR a demo's canvas is too small
        VAILIB_DEMO_GST_ERROR a demo cannot open GStreamer
        VAILIB_DEMO_IMAGE_LOAD_ERROR a demo cannot read an image
        VAILIB_DEMO_OUT_OF_BOUNDARY a demo draws beyond its canvas
        VAILIB_DEMO_VIDEO_OPEN_ERROR a demo cannot open a video
        """,
        never="OpenDPU has no Vitis AI Library: no model configurations, no demos",
    ),
)  # fmt: skip

RUNTIME = (*LIBRARY, *VART)
