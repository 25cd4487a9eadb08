# SPDX-License-Identifier: Apache-2.0
"""Quantize a model with random data, to try what runs.

python -m vai_q_onnx.tools.random_quantize --input_model FLOAT.onnx --quant_model Q.onnx
"""

import argparse
import sys

from onnxruntime.quantization import QuantFormat

from opendpu_arch.errors import DPUError
from vai_q_onnx.quantize import quantize_static


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--input_model", required=True)
    parser.add_argument("--quant_model", required=True)
    given = parser.parse_args()
    try:
        quantize_static(given.input_model, given.quant_model, None, QuantFormat.QDQ)
    except DPUError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
