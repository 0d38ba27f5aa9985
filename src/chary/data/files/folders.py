"""Folders and patterns of Parquet files: which files are meant, found once and in the order of their names."""

import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from chary.data.files.folder_notes import left_by_an_append
from chary.data.silence import quietly
from chary.errors import InvalidParameter

PARQUET: Final = (".parquet", ".pq")
_SIGNS: Final = frozenset("*?[")


@dataclass(frozen=True)
class Folder:
    """The Parquet files of a folder whose names fit a pattern; those that begin with a dot or an underscore are none.

    `*` stands for any letters, `?` for one, `[ab]` for one of these. What is in a folder is public: names of files are
    read, and nothing else of them.
    """

    path: str
    pattern: str = "*"

    @classmethod
    def named(cls, path: str | Path) -> "Folder | None":
        """The folder or pattern that a path stands for; None for a path of one file, also of one with such a name.

        >>> Folder.named("visits/2026-*.parquet")
        Folder(path='visits', pattern='2026-*.parquet')

        `InvalidParameter` for a pattern among the names of folders.
        """
        place = Path(path)
        if place.is_dir():
            return cls(str(place))
        if place.is_file() or not (_SIGNS & set(str(path)) and place.name.lower().endswith(PARQUET)):
            return None
        if _SIGNS & set(str(place.parent)) and not place.parent.is_dir():
            raise InvalidParameter("a pattern is for the names of files in one folder, such as 'visits/2026-*.parquet'")
        return cls(str(place.parent), place.name)

    def files(self) -> tuple[str, ...]:
        """The files there are now, by name, but for what an interrupted append through Spark left.

        `InvalidParameter` if there are none, or folders that might hold more.
        """
        try:
            found = sorted(os.scandir(self.path), key=lambda each: each.name)
        except OSError:
            raise InvalidParameter(f"the folder {self.path!r} cannot be read") from None
        if self.pattern == "*" and any(each.is_dir() and not _hidden(each.name) for each in found):
            raise InvalidParameter(
                f"there are folders in {self.path!r}: name the files, in a list, or a folder of files"
            )
        names = self._living([each.name for each in found if each.is_file() and self._fits(each.name)])
        if not names:
            raise InvalidParameter(f"there is no file {str(Path(self.path, self.pattern))!r} that is Parquet")
        return tuple(str(Path(self.path, name)) for name in names)

    def _living(self, names: list[str]) -> list[str]:
        failure = InvalidParameter(f"the notes of the batches in {self.path!r} cannot be read")
        left = quietly(lambda: left_by_an_append(Path(self.path), names), failure)
        return [name for name in names if name not in left]

    def holds(self, path: str | Path) -> bool:
        """Whether a file is one that `files` finds, or would."""
        return Path(path).resolve().parent == Path(self.path).resolve() and self._fits(Path(path).name)

    def _fits(self, name: str) -> bool:
        return name.lower().endswith(PARQUET) and not _hidden(name) and fnmatchcase(name, self.pattern)


def _hidden(name: str) -> bool:
    return name.startswith((".", "_"))
