# SPDX-License-Identifier: Apache-2.0
"""AXI4 and AXI4-Lite."""
