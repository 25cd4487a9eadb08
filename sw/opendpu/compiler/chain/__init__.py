# SPDX-License-Identifier: Apache-2.0
"""Chains: consecutive layers that run together, some rows of each in turn."""
