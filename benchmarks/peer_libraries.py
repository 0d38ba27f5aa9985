"""Libraries of differential privacy to compare with: their versions (extra `peers`), and why some are missing."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

MEASURED = ("opendp", "dp-accounting", "autodp")
MISSING = {
    "diffprivlib": "0.6.6 installs but does not import: it needs a name that scikit-learn 1.9 no longer has",
    "smartnoise-synth": "does not install: smartnoise-sql, which it needs, needs opendp below 0.15; 0.16 is pinned",
    "dp_auditorium": "does not install: it is not published as a package",
}


def peers(recorded: Mapping[str, str]) -> dict[str, str]:
    """Each peer with its version, or with why there is none; where it is not installed now, as recorded."""
    return {name: _version(name) or recorded.get(name, "not installed") for name in MEASURED} | MISSING


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
