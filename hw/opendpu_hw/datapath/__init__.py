# SPDX-License-Identifier: Apache-2.0
"""Arithmetic shared by engines."""
