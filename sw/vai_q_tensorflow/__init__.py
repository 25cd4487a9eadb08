# SPDX-License-Identifier: Apache-2.0
"""The guide's quantizer for frozen graphs of TensorFlow 1 (UG1414, chapter 3), over ours.

The command is ``vai_q_tensorflow``, also ``python -m vai_q_tensorflow``. Scripts that evaluate
``quantize_eval_model.pb`` import this module first; there is nothing to register, because the graph
has TensorFlow's own operators.
"""

__version__ = "3.5.0"
"""The version of AMD's package whose interface this is."""
