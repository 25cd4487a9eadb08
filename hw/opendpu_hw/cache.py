# SPDX-License-Identifier: Apache-2.0
"""Where generated Verilog and built simulators are kept, by the hash of what they are made from."""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import pathlib
import tempfile

import platformdirs

ENVIRONMENT = "OPENDPU_CACHE"
"""Names the folder to use instead of the user's cache folder."""


def folder() -> pathlib.Path:
    """Return the cache folder; it need not exist."""
    given = os.environ.get(ENVIRONMENT)
    return pathlib.Path(given) if given else platformdirs.user_cache_path("opendpu")


def digest(*parts: str | bytes) -> str:
    """Return a hexadecimal name for the parts, 32 digits; order and borders count."""
    h = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        h.update(len(raw).to_bytes(8, "little"))
        h.update(raw)
    return h.hexdigest()[:32]


def source_digest(*packages: str) -> str:
    """Return the digest of every source and data file of importable packages."""
    parts = []
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ImportError(f"{package!r} is not an importable package")
        root = pathlib.Path(spec.submodule_search_locations[0])
        for path in sorted(root.rglob("*")):
            if path.suffix in {".py", ".json"} and path.is_file():
                parts += [f"{package}/{path.relative_to(root)}", path.read_bytes()]
    return digest(*parts)


@contextlib.contextmanager
def locked(path: pathlib.Path):
    """Hold an exclusive lock across processes while the block runs; ``path`` is the lock file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)


def write_atomically(path: pathlib.Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        pathlib.Path(name).chmod(0o644)
        pathlib.Path(name).replace(path)
    except BaseException:
        pathlib.Path(name).unlink(missing_ok=True)
        raise
