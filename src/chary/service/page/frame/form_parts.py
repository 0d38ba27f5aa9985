"""The parts of a form that brings files, as browsers send it (RFC 7578): read in one pass, however large."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from chary.errors import InvalidParameter

PARTED: Final = "multipart/form-data"
_BOUNDARY: Final = re.compile(rf"{PARTED};\s*boundary=(\"?)([\w'()+,./:=?-]{{1,70}})\1", re.ASCII | re.IGNORECASE)
_NAMED: Final = re.compile(
    rb"content-disposition:\s*form-data;\s*name=\"([^\"\r\n]*)\"(;\s*filename=\"[^\"\r\n]*\")?", re.IGNORECASE
)
_MOST: Final = 500


class Part(NamedTuple):
    """A field or a file of a form."""

    name: str
    content: bytes
    file: bool


def form_parts(media: str, raw: bytes) -> Iterator[Part]:
    r"""The parts of a body of that media type; `InvalidParameter` for what no browser sends.

    >>> raw = b'--x\r\nContent-Disposition: form-data; name="rows"; filename="a.csv"\r\n\r\nage\r\n70\r\n--x--\r\n'
    >>> list(form_parts("multipart/form-data; boundary=x", raw))
    [Part(name='rows', content=b'age\r\n70', file=True)]
    """
    boundary = _BOUNDARY.fullmatch(media.strip())
    limit = b"" if boundary is None else b"--" + boundary[2].encode()
    first, *parts = raw.split(b"\r\n" + limit, _MOST) if limit else [b""]
    if not limit or not parts or not first.startswith(limit) or parts[-1] not in (b"--", b"--\r\n"):
        raise InvalidParameter("the form is not one of this page")
    yield from map(_part, (first[len(limit) :], *parts[:-1]))


def _part(raw: bytes) -> Part:
    end = raw.find(b"\r\n\r\n")
    named = [found for line in raw[: max(end, 0)].split(b"\r\n") if (found := _NAMED.fullmatch(line))]
    if not raw.startswith(b"\r\n") or len(named) != 1:
        raise InvalidParameter("the form is not one of this page")
    return Part(named[0][1].decode("utf-8", "replace"), raw[end + 4 :], named[0][2] is not None)
