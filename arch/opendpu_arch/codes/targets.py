# SPDX-License-Identifier: Apache-2.0
"""Codes of targets: names, fingerprints, ``arch.json``, and bitstreams."""

from opendpu_arch.codes.code import codes

FACTORY = (
    *codes(
        """
        TARGET_FACTORY_INVALID_ARCH a fingerprint names no architecture
        TARGET_FACTORY_INVALID_FEATURE_CODE options of a target describe no machine
        TARGET_FACTORY_INVALID_ISA_VERSION a fingerprint is of another ISA
        TARGET_FACTORY_INVALID_TYPE a fingerprint is of another DPU
        TARGET_FACTORY_PARSE_TARGET_FAIL an arch.json or fingerprint cannot be read
        TARGET_FACTORY_UNREGISTERED_TARGET no target has this name
        """
    ),
    *codes(
        "TARGET_FACTORY_MULTI_REGISTERED_TARGET a target is registered twice",
        never="targets are files of the package, one a name",
    ),
)

EXPLORER = tuple(
    codes(
        """
        TARGET_EXPLORER_XCLBIN_ERROR no bitstream is given
        TARGET_EXPLORER_XCLBIN_ENV_ERROR the bitstream of the environment does not exist
        TARGET_EXPLORER_XCLBIN_ENV_VAL_ERROR the environment names no bitstream
        TARGET_EXPLORER_SYS_DEVICE_CHECK_ERROR the system has no device
        TARGET_EXPLORER_XCLBIN_SET_ERROR no bitstream is set
        TARGET_EXPLORER_NO_DPU_ERROR the bitstream has no DPU
        TARGET_EXPLORER_BATCH_ERROR cores differ in batch or fingerprint
        TARGET_EXPLORER_DEVICE_CHECK_ERROR no device has this bitstream
        """,
        never="devices are simulators; there is no bitstream to be loaded",
    )
)

TARGET = (*EXPLORER, *FACTORY)
