# SPDX-License-Identifier: Apache-2.0
"""Where scripts expect AMD's quantizing functions; what they use of it is in ``pytorch_nndct``."""
