# SPDX-License-Identifier: Apache-2.0
"""Quantizers that ``bench_quantizer.py`` compares, each a program of its own."""
