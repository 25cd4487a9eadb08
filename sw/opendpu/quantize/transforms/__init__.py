# SPDX-License-Identifier: Apache-2.0
"""Changes of the float graph before it is quantized."""
