# SPDX-License-Identifier: Apache-2.0
"""Compiler: quantized XIR graph to DPU program; read :mod:`opendpu.compiler.pipeline` first."""
