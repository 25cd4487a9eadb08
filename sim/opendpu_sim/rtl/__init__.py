# SPDX-License-Identifier: Apache-2.0
"""The RTL in process: Verilog through Verilator, and a C++ world around it."""
