"""The bytes of a file, unpacked and known to be UTF-8. What they mean is decided elsewhere."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

from fedrap_simulation.data.errors import BadData

_GZIP, _ZIP, _PARQUET = b"\x1f\x8b", b"PK\x03\x04", b"PAR1"
_MARK = b"\xef\xbb\xbf"  # the byte order mark that spreadsheets put before UTF-8
_PIECE = 1 << 16


@dataclass(frozen=True, eq=False)
class Content:
    """A whole file in memory."""

    path: Path
    data: bytes
    gzipped: bool

    @property
    def is_parquet(self) -> bool:
        """Whether the bytes say that they are Parquet; the name does not matter."""
        return self.data.startswith(_PARQUET)

    def bad(self, reason: str, line: int | None = None) -> BadData:
        """The error to raise about this file."""
        where = "" if line is None else f", line {line}"
        return BadData(f"{self.path}{where}: {reason}")


def read_content(path: Path) -> Content:
    """Read a file whole, gzip or not.

    Raises:
        BadData: there is no such file, it is empty, an archive, or its gzip is broken.
    """
    if path.is_dir():
        raise BadData(f"{path} is a folder; give the file of interactions within it")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadData(f"{path} can't be read: {error.strerror}") from None
    if raw.startswith(_ZIP):
        raise BadData(f"{path} is a zip archive; unpack it and give the file within it")
    gzipped = raw.startswith(_GZIP)
    content = Content(path, _gunzip(path, raw) if gzipped else raw, gzipped)
    if not content.data.strip():
        raise BadData(f"{path} is empty; was the download complete?")
    return content


def read_text(content: Content) -> bytes:
    """The bytes without a byte order mark, known to be UTF-8.

    Raises:
        BadData: with the line of the first byte that is not UTF-8.
    """
    data = content.data.removeprefix(_MARK)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        reason = (
            f"byte 0x{data[error.start]:02x} is not UTF-8. Convert the file first, for example "
            f"with: iconv -f latin1 -t utf-8 {content.path.name}"
        )
        raise content.bad(reason, line) from None
    return data


def _gunzip(path: Path, raw: bytes) -> bytes:
    """Every member of a gzip file. Piece by piece, so that the last good line is known."""
    out = bytearray()
    rest = memoryview(raw)
    while len(rest):
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            if not len(rest):
                raise _broken_gzip(path, out, "the gzip data ends too early; download it again")
            try:
                out += member.decompress(rest[:_PIECE])
            except zlib.error as error:
                raise _broken_gzip(path, out, f"the gzip data is broken ({error})") from None
            rest = rest[_PIECE:]
        left = member.unused_data
        if left:
            rest = memoryview(raw)[len(raw) - len(rest) - len(left) :]
        if not bytes(rest[:_PIECE]).strip(b"\0"):  # tools pad with zeros
            break
    return bytes(out)


def _broken_gzip(path: Path, out: bytearray, reason: str) -> BadData:
    line = out.count(b"\n") + 1
    return BadData(f"{path}, line {line}: {reason}")
