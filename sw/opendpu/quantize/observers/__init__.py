# SPDX-License-Identifier: Apache-2.0
"""Observers: what calibration remembers of a tensor, batch by batch."""
