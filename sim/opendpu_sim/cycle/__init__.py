# SPDX-License-Identifier: Apache-2.0
"""A cycle model of the gateware: when every instruction starts and ends, without its data."""
