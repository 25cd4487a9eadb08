# SPDX-License-Identifier: Apache-2.0
"""Compile our .proto files into descriptors that the packages load; --check in CI."""

import argparse
import pathlib
import sys
import tempfile

from grpc_tools import protoc

from opendpu_arch import outputs

SW = pathlib.Path(__file__).resolve().parent.parent / "sw"
SOURCES = (
    SW / "xir/proto/xmodel.proto",
    SW / "opendpu/frontend/tensorflow/proto/graph.proto",
    SW / "opendpu/frontend/caffe/proto/net.proto",
)
HEADER = '''\
# SPDX-License-Identifier: Apache-2.0
"""The compiled form of ``{name}``: made by ``scripts/gen_proto.py``, not by hand."""

FILE_DESCRIPTOR = (
'''


def compile_descriptor(source: pathlib.Path) -> bytes:
    """Return a ``.proto`` file as a serialized FileDescriptorSet."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "set.bin")
        arguments = ["protoc", f"-I{source.parent}", f"--descriptor_set_out={output}", source.name]
        if protoc.main(arguments) != 0:
            sys.exit(f"protoc refuses {source}")
        return output.read_bytes()


def render(name: str, descriptor: bytes) -> str:
    """Return the Python module that holds the ``descriptor`` of a file."""
    chunk = 40
    lines = [f'    "{descriptor[i : i + chunk].hex()}"\n' for i in range(0, len(descriptor), chunk)]
    header = HEADER.format(name=name)
    return header + "".join(lines) + ')\n"""Hexadecimal digits of a FileDescriptorSet."""\n'


def main() -> None:
    """Write the modules, or compare them with those on disk."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if a module is out of date")
    check = parser.parse_args().check
    for source in SOURCES:
        output = source.with_name("descriptor.py")
        text = render(source.name, compile_descriptor(source))
        if not check:
            outputs.write(output, text)
        elif not output.exists() or output.read_text(encoding="utf-8") != text:
            sys.exit(f"{output} is out of date; run python scripts/gen_proto.py")


if __name__ == "__main__":
    main()
