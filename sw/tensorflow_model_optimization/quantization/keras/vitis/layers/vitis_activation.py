# SPDX-License-Identifier: Apache-2.0
"""What AMD's examples import and use nothing of: activations are replaced by the quantizer itself.

See ``convert_sigmoid_to_hard_sigmoid`` of ``quantize_model``.
"""
