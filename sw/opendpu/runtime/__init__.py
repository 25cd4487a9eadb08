# SPDX-License-Identifier: Apache-2.0
"""Devices and the runner."""
