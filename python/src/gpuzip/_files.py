"""Files that this package writes."""

import errno
import os
import stat
from typing import IO, Union


def new_file(path: Union[str, "os.PathLike[str]"]) -> IO[bytes]:
    """Opens an empty file for writing. As in the library, the file may have no second name, and a
    symbolic link is followed only if it is this user's or root's: another user could have made it to
    have a file of this user overwritten. Whatever is no regular file is an OSError, too."""
    target = os.fspath(path)
    try:
        link = os.lstat(target)
    except FileNotFoundError:
        link = None
    if link is not None and stat.S_ISLNK(link.st_mode):
        if link.st_uid not in (0, os.geteuid()):
            raise OSError(errno.ELOOP, "a symbolic link of another user", target)
        target = os.path.realpath(target)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(target, flags, 0o666)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise OSError(errno.EMLINK, "no regular file with this one name", target)
        os.ftruncate(descriptor, 0)
        return os.fdopen(descriptor, "wb")
    except BaseException:
        os.close(descriptor)
        raise
