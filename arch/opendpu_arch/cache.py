# SPDX-License-Identifier: Apache-2.0
"""What takes long to make, kept by the hash of what it is made from: Verilog, simulators, programs.

The cache can always be done without. An entry is used when its content has the hash that was stored
with it, else it is made again; what cannot be stored lies in a temporary folder until the process
ends, and a warning says so once. Entries used longest ago go when a kind takes more than
:data:`LIMIT` bytes.
"""

import atexit
import contextlib
import fcntl
import hashlib
import importlib.util
import os
import pathlib
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator

Make = Callable[[pathlib.Path], object]

ENVIRONMENT = "OPENDPU_CACHE"
"""Names the folder to use instead of the user's cache folder."""

LIMIT = 2 << 30
"""Bytes that the entries of one kind may take together."""
SPARED = 3600
"""Seconds for which an entry that was used is not removed, whatever the limit."""

_unstored: dict[tuple[str, str, pathlib.Path | None], pathlib.Path] = {}
"""Entries of this process that could not be stored: path by kind, name and wished folder."""


class CacheWarning(UserWarning):
    """The cache cannot be used; everything works, but is made again the next time."""


def folder() -> pathlib.Path | None:
    """Return the cache folder, which need not exist; None where there is no home for one.

    Without :data:`ENVIRONMENT` it is where the XDG base directory specification wants it.
    """
    given = os.environ.get(ENVIRONMENT)
    if given:
        return pathlib.Path(given).absolute()
    home = os.environ.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache")  # noqa: PTH111 - "~" stays where there is no home
    found = pathlib.Path(home, "opendpu")
    return found if found.is_absolute() else None


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
    parts: list[str | bytes] = []
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ImportError(f"{package!r} is not an importable package")
        root = pathlib.Path(spec.submodule_search_locations[0])
        for path in sorted(root.rglob("*")):
            if path.suffix in {".py", ".json"} and path.is_file():
                parts += [f"{package}/{path.relative_to(root)}", path.read_bytes()]
    return digest(*parts)


def entry(kind: str, name: str, make: Make) -> pathlib.Path:
    """Return the path of an entry, a file or folder, made where it is missing or damaged.

    Of several processes that want the same entry one makes it, the others wait.

    Parameters
    ----------
    kind
        Folder in the cache.
    name
        Name of the entry, with the :func:`digest` of everything that it depends on.
    make
        Called with a path in a temporary folder, where it has to make the file or folder. What it
        raises is raised here, and nothing is stored.
    """
    wished = folder()
    unstored = _unstored.get((kind, name, wished))
    if unstored is not None and unstored.exists():
        return unstored
    if wished is None:
        return _outside(kind, name, wished, make, "the user has no home folder")
    path = wished / kind / name
    if _is_whole(path):
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return _outside(kind, name, wished, make, error.strerror)
    with _locked(path.parent / f"{name}.lock"):
        if _is_whole(path):
            return path
        with tempfile.TemporaryDirectory(prefix="opendpu-") as where:
            made = pathlib.Path(where, name)
            make(made)
            try:
                _store(made, path)
            except OSError as error:
                return _outside(kind, name, wished, made.rename, error.strerror)
    with contextlib.suppress(OSError):
        _prune(path.parent)
    return path


def text(kind: str, name: str, make: Callable[[], str]) -> str:
    """Return the text of an entry, which ``make`` returns where it is missing or damaged."""
    made: list[str] = []

    def write(path: pathlib.Path) -> None:
        made.append(make())
        path.write_text(made[0], encoding="utf-8")

    try:
        path = entry(kind, name, write)
        return made[0] if made else path.read_text(encoding="utf-8")
    except OSError:  # not even a temporary folder
        return made[0] if made else make()


def _outside(
    kind: str, name: str, wished: pathlib.Path | None, make: Make, reason: str | None
) -> pathlib.Path:
    """Make an entry in a folder that goes when the process ends."""
    warnings.warn(
        f"the cache {wished or ''} cannot be used ({reason}), so {kind} is built again the next "
        f"time; ${ENVIRONMENT} can name another folder",
        CacheWarning,
        stacklevel=3,
    )
    where = pathlib.Path(tempfile.mkdtemp(prefix="opendpu-"))
    atexit.register(shutil.rmtree, where, ignore_errors=True)
    make(where / name)
    _unstored[kind, name, wished] = where / name
    return where / name


def _hash_file(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(f"{path.name}.sha256")


def content_hash(path: pathlib.Path) -> str:
    """Return the hash of a file, or of all files in a folder with their names."""
    h = hashlib.sha256()
    for file in sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]:
        h.update(f"{file.relative_to(path)}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as opened:
            while chunk := opened.read(1 << 20):
                h.update(chunk)
    return h.hexdigest()


def _is_whole(path: pathlib.Path) -> bool:
    """Return whether an entry is there as it was stored, and note that it is used."""
    try:
        if _hash_file(path).read_text(encoding="ascii").strip() != content_hash(path):
            return False
    except (OSError, ValueError):
        return False
    with contextlib.suppress(OSError):
        os.utime(path)
    return True


def _store(made: pathlib.Path, path: pathlib.Path) -> None:
    """Copy an entry into the cache; its hash comes first, so that it is never there without."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".store-") as where:
        copy = pathlib.Path(where, path.name)
        if made.is_dir():
            shutil.copytree(made, copy)
        else:
            shutil.copy(made, copy)
        told = _hash_file(copy)
        told.write_text(content_hash(made) + "\n", encoding="ascii")
        _remove(path)
        told.replace(_hash_file(path))
        copy.replace(path)


def _remove(path: pathlib.Path) -> None:
    """Remove what is at ``path``; a library in use stays mapped."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _prune(root: pathlib.Path) -> None:
    """Remove the entries used longest ago until the others take at most :data:`LIMIT` bytes."""
    found = []
    for path in root.iterdir():
        if path.suffix in (".sha256", ".lock"):
            continue
        with contextlib.suppress(OSError):
            size = sum(p.stat().st_size for p in (path, *path.rglob("*")) if p.is_file())
            found.append((path.stat().st_mtime, size, path))
    left = sum(size for _, size, _ in found)
    for used, size, path in sorted(found):
        abandoned = path.name.startswith(".store-")
        if used > time.time() - SPARED or not (abandoned or left > LIMIT):
            continue
        with contextlib.suppress(OSError):
            _remove(path)
            for other in (_hash_file(path), path.with_name(f"{path.name}.lock")):
                other.unlink(missing_ok=True)
        left -= size


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    """Hold an exclusive lock across processes; without one where the folder does not allow it."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            handle = stack.enter_context(path.open("a"))
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
