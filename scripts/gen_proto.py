# SPDX-License-Identifier: Apache-2.0
"""Compile sw/xir/proto/xmodel.proto into the descriptor that :mod:`xir` loads; --check in CI."""

import argparse
import pathlib
import sys
import tempfile

from grpc_tools import protoc

from opendpu_arch import outputs

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "sw/xir/proto"
SOURCE = FOLDER / "xmodel.proto"
OUTPUT = FOLDER / "descriptor.py"
HEADER = '''\
# SPDX-License-Identifier: Apache-2.0
"""The compiled form of ``xmodel.proto``: made by ``scripts/gen_proto.py``, not by hand."""

FILE_DESCRIPTOR = (
'''


def compile_descriptor() -> bytes:
    """Return ``xmodel.proto`` as a serialized FileDescriptorSet."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "set.bin")
        arguments = ["protoc", f"-I{FOLDER}", f"--descriptor_set_out={output}", SOURCE.name]
        if protoc.main(arguments) != 0:
            sys.exit(f"protoc refuses {SOURCE}")
        return output.read_bytes()


def render(descriptor: bytes) -> str:
    """Return the Python module that holds ``descriptor``."""
    chunk = 40
    lines = [f'    "{descriptor[i : i + chunk].hex()}"\n' for i in range(0, len(descriptor), chunk)]
    return HEADER + "".join(lines) + ')\n"""Hexadecimal digits of a FileDescriptorSet."""\n'


def main() -> None:
    """Write the module, or compare it with the one on disk."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if the module is out of date")
    text = render(compile_descriptor())
    if parser.parse_args().check:
        if not OUTPUT.exists() or OUTPUT.read_text(encoding="utf-8") != text:
            sys.exit(f"{OUTPUT} is out of date; run python scripts/gen_proto.py")
    else:
        outputs.write(OUTPUT, text)


if __name__ == "__main__":
    main()
