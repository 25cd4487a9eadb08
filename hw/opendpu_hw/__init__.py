# SPDX-License-Identifier: Apache-2.0
"""The DPU as gateware, in Amaranth."""
