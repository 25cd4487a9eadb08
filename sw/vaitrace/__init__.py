# SPDX-License-Identifier: Apache-2.0
"""``vaitrace``: runs a program and reports the DPU jobs in it, as the profiler of Vitis AI."""
