"""The lock of a checkpoint directory (docs/format.md): who holds it, and holding it oneself."""

import contextlib
import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from typing import Optional

from backstay.lines import Directory, Problem

# struct flock of 64-bit Linux: type, whence, start, length, pid. An open-file-description lock wants a pid of 0.
_FLOCK = "hhqqi4x"
_BUSY = (errno.EACCES, errno.EAGAIN)


def _flock(kind: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)


def is_job_running(directory: Directory) -> Optional[bool]:
    """True while a job holds one of the locks; None where the file system or this Python cannot tell."""
    answers = [_is_held(path) for path in directory.locks()]
    return True if True in answers else None if None in answers else False


def _is_held(path) -> Optional[bool]:
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


@contextlib.contextmanager
def locked(directory: Directory, force: bool = False) -> Iterator[None]:
    """Holds all locks of the directory, so that no job starts meanwhile; a Problem if one is running.

    `force` goes on where the file system has no locks; it does not push a running job aside.
    """
    with contextlib.ExitStack() as stack:
        for path in directory.locks():
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            stack.callback(os.close, fd)
            _take(fd, path, force)
        yield


def _take(fd: int, path, force: bool) -> None:
    try:
        if hasattr(fcntl, "F_OFD_SETLK"):
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _flock(fcntl.F_WRLCK))
        else:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
