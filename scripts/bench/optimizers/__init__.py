# SPDX-License-Identifier: Apache-2.0
"""Data and networks of scripts/bench/bench_optimizer.py."""
