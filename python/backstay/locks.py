"""The locks of a checkpoint directory: who holds one, and holding one oneself.

A job holds `lock` in the directory and in those of its nodes (docs/format.md); `backstay run` holds `run.lock` as well,
from before its first launch to its end. A lock ends with its holder, however that ends; the file stays.
"""

import contextlib
import errno
import fcntl
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

from .lines import RUN_LOCK, Directory, Problem, open_to_read

# struct flock of 64-bit Linux: type, whence, start, length, pid. An open-file-description lock wants a pid of 0.
_FLOCK = "hhqqi4x"
_BUSY = (errno.EACCES, errno.EAGAIN)


def _flock(kind: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)


def is_job_running(directory: Directory) -> Optional[bool]:
    """True while a job holds one of the locks; None where the file system or this Python cannot tell."""
    answers = [is_held(path) for path in directory.locks()]
    return True if True in answers else None if None in answers else False


def is_held(path: Path) -> Optional[bool]:
    """True while somebody holds the lock; None where that cannot be told."""
    if not hasattr(fcntl, "F_OFD_GETLK"):
        return None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        # A write lock is asked for, because it meets every other lock; asking does not need write permission.
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK))
        return struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK
    except OSError:
        return None
    finally:
        os.close(fd)


def holder_of(path: Path) -> str:
    """Who holds the lock, as the holder wrote it; only plain characters of it, as anyone may have written there."""
    try:
        with open_to_read(path) as file:
            line = file.read(512).decode(errors="replace").partition("\n")[0]
    except (Problem, OSError):
        line = ""
    return "".join(c for c in line if c.isprintable()) or "a job that has not left its name"


def is_of_run(path: Path, run_id: str) -> bool:
    """Whether who holds the lock, or held it last, is a process of this `backstay run`."""
    try:
        with open_to_read(path) as file:
            return f"run {run_id}".encode() in file.read(1024).split(b"\n")[1:]
    except (Problem, OSError):
        return False


@contextlib.contextmanager
def locked(directory: Directory, force: bool = False) -> Iterator[None]:
    """Holds all locks of the directory, so that no job starts meanwhile; a Problem if one is running.

    `force` goes on where the file system has no locks; it does not push a running job aside.
    """
    with contextlib.ExitStack() as stack:
        for path in directory.locks():
            fd = _open_to_lock(path, "nothing is removed: do it as the user whose job this was, or add --dry-run")
            stack.callback(os.close, fd)
            _take(fd, path, force)
        yield


def _open_to_lock(path: Path, so: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise Problem(f"The lock {path} cannot be opened ({error.strerror}), so {so}.", "io") from error


def _take(fd: int, path: Path, force: bool) -> None:
    try:
        _set_lock(fd)
    except OSError as error:
        if error.errno in _BUSY:
            raise Problem(
                f"A running job holds {path} and prunes by itself: set its option `keep`, or wait until it has ended.",
                "locked",
            ) from error
        if not force:
            raise Problem(
                f"It cannot be told whether a job is running, because {path} cannot be locked ({error.strerror}): "
                "use --force if you are sure that none is.",
                "locked",
            ) from error


def _set_lock(fd: int) -> None:
    """Takes the lock at once, or raises OSError. It is the open file's: a program that is started does not keep it."""
    if hasattr(fcntl, "F_OFD_SETLK"):
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _flock(fcntl.F_WRLCK))
    else:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def locked_for_run(directory: Path) -> Iterator[None]:
    """Holds run.lock, also between two launches; a Problem if another `backstay run` does. Where the file system has no
    locks nothing is held."""
    fd = _open_to_lock(directory / RUN_LOCK, "no job is launched here: choose another directory with --dir")
    try:
        _take_for_run(fd, directory)
        _write_holder(fd, f"process {os.getpid()} on host {socket.gethostname()}, since {_now()}\n")
        yield
        _write_holder(fd, "")
    finally:
        os.close(fd)


def _take_for_run(fd: int, directory: Path) -> None:
    try:
        _set_lock(fd)
    except OSError as error:
        if error.errno in _BUSY:
            name = os.pread(fd, 256, 0).decode(errors="replace").partition("\n")[0]
            holder = f"another `backstay run` ({name})" if name else "another command of backstay"
            raise Problem(
                f"{directory} is in use by {holder}: wait until it ends, stop it, or choose another directory with "
                "--dir.",
                "locked",
            ) from None


def _write_holder(fd: int, text: str) -> None:
    """As well as can be: on a full disk the lock holds all the same, and only the sentence for others is poorer."""
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, text.encode(), 0)


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
