# SPDX-License-Identifier: Apache-2.0
"""Networks of Caffe as float graphs; Caffe is not needed."""

from opendpu.frontend.caffe.model import load_caffe

__all__ = ["load_caffe"]
