"""The sdist, packed so that two runs give the same bytes."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import tarfile
from pathlib import Path


def make_sdist(root: Path, folder: Path, epoch: int) -> Path:
    """Make the sdist.

    Parameters
    ----------
    root : Path
        The source tree.
    folder : Path
        Its destination.
    epoch : int
        The time of each file in it, in seconds of Unix.

    Returns
    -------
    Path
        The sdist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "build", "--sdist", "--outdir", str(folder), str(root)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (sdist,) = folder.glob("*.tar.gz")
    sdist.write_bytes(normalized(sdist.read_bytes(), epoch))
    return sdist


def normalized(packed: bytes, epoch: int) -> bytes:
    """Repack a ``.tar.gz`` independently of user and time.

    Parameters
    ----------
    packed : bytes
        The archive.
    epoch : int
        The time that every file gets.
    """
    raw = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(packed)) as old,
        tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid = epoch, 0, 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return gzip.compress(raw.getvalue(), 9, mtime=epoch)
