"""Files of rows as bodies of requests: sent as they are while they are read, under a key of their contents."""

import gzip
import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from chary.errors import InvalidParameter

ARROW: Final = "application/vnd.apache.arrow.stream"
ARROW_FILE: Final = "application/vnd.apache.arrow.file"
PARQUET: Final = "application/vnd.apache.parquet"
CSV_TEXT: Final = "text/csv"
TSV_TEXT: Final = "text/tab-separated-values"
# The media types of files by their endings.
_MEDIA: Final = {
    ".csv": CSV_TEXT,
    ".tsv": TSV_TEXT,
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".arrow": ARROW_FILE,
    ".feather": ARROW_FILE,
}
_PACKED: Final = (".gz", ".zst")
_PART: Final = 1 << 20


@dataclass(frozen=True)
class RowFile:
    """A file of rows as the body of a request, read in parts; sending it again reads it again."""

    path: Path
    media: str

    @classmethod
    def of(cls, path: str | Path, media: str | None = None) -> "RowFile":
        """The file at a path, its media type by its ending: CSV or TSV, also packed (.gz, .zst), Parquet or Arrow.

        Errors: `InvalidParameter` where there is none, or for another ending without a `media` type.
        """
        file = Path(path)
        endings = [ending.lower() for ending in file.suffixes[-2:] if ending.lower() not in _PACKED]
        known = media or _MEDIA.get(endings[-1] if endings else "")
        if known is None or (known not in (CSV_TEXT, TSV_TEXT) and file.suffix.lower() in _PACKED):
            raise InvalidParameter(f"rows are sent from files that end in {', '.join(_MEDIA)}, or .csv.gz")
        if not file.is_file():
            raise InvalidParameter(f"there is no file {file.name}")
        return cls(file, known)

    def __iter__(self) -> Iterator[bytes]:
        with self._opened() as opened:
            while part := opened.read(_PART):
                yield part

    def key(self, secret: bytes) -> str:
        """An idempotency key from the name and the contents: the same for the same file, and meaningless without the
        secret.

        It contains the name, so that two batches with equal contents have different keys, and their equality shows
        nowhere.
        """
        made = hmac.new(
            secret, b"%d %b" % (len(name := self.path.name.encode("utf-8", "surrogateescape")), name), hashlib.sha256
        )
        for part in self:
            made.update(part)
        return f"file {made.hexdigest()}"

    def _opened(self) -> Any:
        ending = self.path.suffix.lower()
        if ending == ".gz":
            return gzip.open(self.path)
        if ending != ".zst":
            return self.path.open("rb")
        try:
            return import_module("pyarrow").input_stream(str(self.path), compression="zstd")
        except ModuleNotFoundError:
            raise InvalidParameter("a file that ends in .zst needs pyarrow: unpack it first") from None
