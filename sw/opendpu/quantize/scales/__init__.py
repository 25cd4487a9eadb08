# SPDX-License-Identifier: Apache-2.0
"""Scales: which one a tensor gets, and which ones the DPU can hold."""
