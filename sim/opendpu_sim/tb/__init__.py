# SPDX-License-Identifier: Apache-2.0
"""What cocotb benches are made of."""
