# SPDX-License-Identifier: Apache-2.0
"""Registers, fetch, decode and dispatch."""
