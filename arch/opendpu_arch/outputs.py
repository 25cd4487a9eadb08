# SPDX-License-Identifier: Apache-2.0
"""Output files: checked before long work begins, and there when they are complete or not at all.

A regular file is written to a temporary name in the same folder and renamed. Where the path is a
symbolic link, the file that it leads to is replaced. Devices, pipes and descriptors such as
``/dev/stdout`` cannot be replaced: they get the whole content at the end.
"""

import contextlib
import errno
import os
import pathlib
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO

from opendpu_arch.errors import OutputError

Path = str | os.PathLike[str]

IN_MEMORY = 1 << 24
"""Bytes for a device or pipe that are kept in memory; more goes to a temporary file."""

_DESCRIPTORS = re.compile(r"/proc/(?:self|\d+|thread-self)/(?:task/\d+/)?fd")
_MAX_LINKS = 40  # as in the kernel


@contextlib.contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open a binary file whose content is at ``path`` when the block ends.

    A new file has the mode that the umask gives, a replaced one keeps its own. When the block
    raises, nothing is left behind and what was at ``path`` stays.

    Raises
    ------
    OutputError
        The file cannot be written.
    """
    try:
        through = _is_through(path)
        with _through(path) if through else _replacing(path) as file:
            yield file
    except OSError as error:
        raise refusal(path, error.strerror or str(error)) from error


def write(path: Path, content: bytes | str) -> None:
    """Write a whole file, text as UTF-8; see :func:`writing`."""
    with writing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def check(path: Path, *, inputs: Iterable[Path] = ()) -> None:
    """Check, before long work, that ``path`` can be written and is none of the ``inputs``.

    Nothing is changed; a temporary file is made in the folder and removed.

    Raises
    ------
    OutputError
        It is a directory, read-only or an input, or its folder is missing or cannot be written.
    """
    _refuse_empty(path)
    try:
        if not _is_through(path):
            _check_regular(path, inputs)
        elif _descriptor(path) is None and not os.access(path, os.W_OK):
            raise refusal(path, os.strerror(errno.EACCES))
    except OSError as error:
        raise refusal(path, error.strerror or str(error)) from error


def check_all(paths: Iterable[Path | None], *, inputs: Iterable[Path] = ()) -> None:
    """Check several outputs, each as :func:`check` does, and that no two are the same file."""
    inputs = tuple(inputs)
    seen: dict[str, Path] = {}
    for path in paths:
        if path is None:
            continue
        check(path, inputs=inputs)
        real = os.path.realpath(path)
        if real in seen and not _is_through(path):
            raise refusal(path, f"{os.fspath(seen[real])} is written to the same file")
        seen[real] = path


def check_folder(path: Path) -> None:
    """Check that files can be made in a folder, which itself need not exist yet.

    Raises
    ------
    OutputError
        It, or what would hold it, is no folder or cannot be written, or it has no name.
    """
    _refuse_empty(path)
    folder = pathlib.Path(path)
    try:
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        if not folder.is_dir():
            raise refusal(path, f"{folder} is no folder")
        _try_folder(folder)
    except OSError as error:
        raise refusal(path, error.strerror or str(error)) from error


@contextlib.contextmanager
def making_folder(path: Path, *, code: str | None = None) -> Iterator[None]:
    """Make a folder, and those above it, for files that the block writes.

    When the block raises, folders that were made and are still empty are removed.

    Raises
    ------
    OutputError
        It cannot be made; with ``code``.
    """
    folder = pathlib.Path(path)
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _remove_empty(made)
        reason = error.strerror or str(error)
        raise OutputError(f"{os.fspath(path)} cannot be made: {reason}", code=code) from error
    try:
        yield
    except BaseException:
        _remove_empty(made)
        raise


def _remove_empty(folders: Iterable[pathlib.Path]) -> None:
    """Remove folders, the innermost first, up to the first that is missing or not empty."""
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


def is_standard_output(path: Path) -> bool:
    """Return whether ``path`` leads to this process's standard output."""
    return _descriptor(path) == 1


def refusal(path: Path, reason: str) -> OutputError:
    """Return the error for an output that cannot be written."""
    return OutputError(f"{os.fspath(path) or repr('')} cannot be written: {reason}")


def _refuse_empty(path: Path) -> None:
    """Refuse a path of no letters, which pathlib takes for the current folder."""
    if not os.fspath(path):
        raise refusal(path, "the path is empty; . is the current folder")


def _check_regular(path: Path, inputs: Iterable[Path]) -> None:
    target = pathlib.Path(os.path.realpath(path))
    if target.is_dir():
        raise refusal(path, "it is a directory")
    for given in inputs:
        if target.exists() and pathlib.Path(given).exists() and target.samefile(given):
            raise refusal(path, f"it is the input {os.fspath(given)}")
    _refuse_read_only(path, target)
    if not target.parent.is_dir():
        raise refusal(path, f"there is no folder {target.parent}")
    try:
        _try_folder(target.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise refusal(path, f"its folder cannot be written: {reason}") from error


def _refuse_read_only(path: Path, target: pathlib.Path) -> None:
    """Refuse to replace what its owner protected; renaming would not ask, and root may all."""
    if not target.exists():
        return
    protected = not target.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    if protected or not os.access(target, os.W_OK):
        raise refusal(path, "the file is read-only")


def _try_folder(folder: pathlib.Path) -> None:
    handle, name = _temporary(folder / "x")
    os.close(handle)
    name.unlink()


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    target = pathlib.Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a directory")
    _refuse_read_only(path, target)
    handle, temporary = _temporary(target)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        if target.exists():
            _copy_owner(target, temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _temporary(target: pathlib.Path) -> tuple[int, pathlib.Path]:
    """Make a file beside ``target``; unlike tempfile's, its mode is what the umask gives."""
    name = target.parent / f".{target.name[:40]}.{secrets.token_hex(6)}"
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), name


def _copy_owner(source: pathlib.Path, copy: pathlib.Path) -> None:
    found = source.stat()
    with contextlib.suppress(OSError):  # only root may give files away
        os.chown(copy, found.st_uid, found.st_gid)
    copy.chmod(stat.S_IMODE(found.st_mode))


@contextlib.contextmanager
def _through(path: Path) -> Iterator[IO[bytes]]:
    """Collect the content, then write it into what is there."""
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as file:
        yield file
        file.seek(0)
        descriptor = _descriptor(path)
        handle = os.dup(descriptor) if descriptor is not None else os.open(path, os.O_WRONLY)
        with os.fdopen(handle, "wb") as sink:
            shutil.copyfileobj(file, sink)


def _is_through(path: Path) -> bool:
    """Return whether something is there that must not be replaced: no file and no directory."""
    if _descriptor(path) is not None:
        return True
    try:
        mode = pathlib.Path(path).stat().st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _descriptor(path: Path) -> int | None:
    """Return which descriptor of this process a path such as ``/dev/stdout`` leads to."""
    step = pathlib.Path(os.path.abspath(path))  # noqa: PTH100 - does not follow links
    for _ in range(_MAX_LINKS):
        folder = os.path.realpath(step.parent)
        if _DESCRIPTORS.fullmatch(folder) and step.name.isdigit():
            return int(step.name) if folder.split("/")[2] in ("self", str(os.getpid())) else None
        if not step.is_symlink():
            return None
        step = pathlib.Path(folder, step.readlink())
    return None
