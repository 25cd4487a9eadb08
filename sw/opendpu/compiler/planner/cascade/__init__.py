# SPDX-License-Identifier: Apache-2.0
"""Cascades: consecutive layers that run together, stripes of rows of each in turn."""
