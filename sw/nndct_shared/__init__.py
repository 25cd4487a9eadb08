# SPDX-License-Identifier: Apache-2.0
"""The part of AMD's quantizer for PyTorch that scripts set options in, see :mod:`.utils`."""
