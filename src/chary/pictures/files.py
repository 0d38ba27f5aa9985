"""Files that pictures and reports are written to."""

import os
from pathlib import Path
from typing import Final

from chary.errors import InvalidParameter

ENDINGS: Final = (".png", ".pdf", ".svg")


def check_picture(path: Path | str) -> Path:
    """The file to write; `InvalidParameter` for another ending or a place where no file can be written."""
    target = Path(path)
    if target.suffix.lower() not in ENDINGS or not writable(target):
        raise InvalidParameter(f"a picture goes to a file in an existing folder that ends in {', '.join(ENDINGS)}")
    return target


def writable(target: Path) -> bool:
    """Whether it is, or may become, a file of ours; asked beforehand, since what comes first may be charged."""
    place = target if target.exists() else target.parent
    return not target.is_dir() and place.exists() and os.access(place, os.W_OK)
