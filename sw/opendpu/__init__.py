# SPDX-License-Identifier: Apache-2.0
"""The compiler, quantizer and runtime of OpenDPU; the user API is :mod:`opendpu.api`."""
