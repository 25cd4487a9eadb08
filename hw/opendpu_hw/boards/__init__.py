# SPDX-License-Identifier: Apache-2.0
"""The DPU on boards: what each is, and what its tools need beside the Verilog."""
