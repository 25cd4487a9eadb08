# SPDX-License-Identifier: Apache-2.0
"""Both files of small networks of Caffe, and their results."""

from pathlib import Path

import numpy as np

from opendpu.frontend.caffe.proto import Net
from opendpu.ops.session import Session

INPUT = 'layer { name: "data" type: "Input" top: "data" input_param { shape { %s } } }\n'


def written(folder: Path, text: str, weights: dict, shape=(1, 4, 7, 6)) -> Path:
    """Write both files of a network; the first layer reads ``data``."""
    dims = " ".join(f"dim: {size}" for size in shape)
    path = folder / "deploy.prototxt"
    path.write_text('name: "small"\n' + INPUT % dims + text)
    net = Net()
    for name, arrays in (weights or {"data": []}).items():
        layer = net.layer.add()
        layer.name = name
        for array in arrays:
            blob = layer.blobs.add()
            blob.shape.dim.extend(array.shape)
            blob.data.extend(array.ravel().tolist())
    (folder / "weights.caffemodel").write_bytes(net.SerializeToString())
    return path


def layer(kind, parameters="", bottoms=("data",), tops=("y",), name="one"):
    lines = [f'name: "{name}" type: "{kind}"']
    lines += [f'bottom: "{bottom}"' for bottom in bottoms] + [f'top: "{top}"' for top in tops]
    return "layer { " + " ".join([*lines, parameters]) + " }\n"


def run(graph, x):
    """Return the outputs for an input, both in Caffe's order of axes."""
    order = graph.attrs.get("onnx_order", {})
    found = Session(graph).run({"data": x.transpose(order["data"]) if "data" in order else x})
    return [
        found[n].transpose(np.argsort(order[n])) if n in order else found[n] for n in graph.outputs
    ]
