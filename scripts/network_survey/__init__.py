# SPDX-License-Identifier: Apache-2.0
"""What becomes of networks on the DPU, measured for the page of networks."""
