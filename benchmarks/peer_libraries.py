"""Libraries of differential privacy to compare with: their versions (extra `peers`), and why some are missing."""

from importlib.metadata import PackageNotFoundError, version

MEASURED = ("opendp", "dp-accounting", "autodp")
MISSING = {
    "diffprivlib": "0.6.6 installs but does not import: it needs a name that scikit-learn 1.9 no longer has",
    "smartnoise-synth": "does not install: smartnoise-sql, which it needs, needs opendp below 0.15; 0.16 is pinned",
    "dp_auditorium": "does not install: it is not published as a package",
}


def peers() -> dict[str, str]:
    """Each peer with its version, or with why there is none."""
    return {name: _version(name) for name in MEASURED} | MISSING


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed in this run"
