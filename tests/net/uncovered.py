"""Says what the net does not touch: `python -m tests.net.uncovered`, some minutes.

A function is touched where the tests of this folder enter it, in this process; what only runs in other processes counts
as untouched. Modules in which no function is entered come first, then how many functions of the others are not.
"""

import sys
import threading
from cProfile import Profile
from pathlib import Path
from types import CodeType

import pytest

SOURCE = Path(__file__).parents[2] / "src"


def functions(place):
    """Every function of a module, by line and name."""
    found, waiting = set(), [compile(place.read_text(encoding="utf-8"), str(place), "exec")]
    while waiting:
        code = waiting.pop()
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
        # Bodies of classes and of modules have no locals of their own.
        if code.co_flags & 2 and not code.co_name.startswith("<"):
            found.add((code.co_firstlineno, code.co_name))
    return found


def entered(work):
    """What `work` enters, in any thread of this process, by file."""
    profiles = [Profile()]

    def begin(*_):
        profiles.append(Profile())
        profiles[-1].enable()

    threading.setprofile(begin)
    profiles[0].enable()
    try:
        work()
    finally:
        profiles[0].disable()
        threading.setprofile(None)
    found = {}
    for code in (entry.code for profile in profiles for entry in profile.getstats()):
        if isinstance(code, CodeType):
            found.setdefault(code.co_filename, set()).add((code.co_firstlineno, code.co_name))
    return found


def main(arguments):
    """Modules that are not touched, then those of which parts are not."""
    tests = str(Path(__file__).parent)
    found = entered(lambda: pytest.main([tests, "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments]))
    rows = []
    for place in sorted(SOURCE.rglob("*.py")):
        all_ = functions(place)
        if all_:
            rows.append((len(all_ & found.get(str(place), set())), len(all_), place.relative_to(SOURCE)))
    out = sys.stdout.write
    untouched = [row for row in rows if not row[0]]
    out(f"{len(untouched)} of {len(rows)} modules with functions are not touched:\n")
    out("".join(f"  {place} ({size})\n" for _, size, place in untouched))
    out(f"{sum(row[0] for row in rows)} of {sum(row[1] for row in rows)} functions are touched; of the others:\n")
    out("".join(f"  {place}: {size - hit} of {size}\n" for hit, size, place in rows if 0 < hit < size))


if __name__ == "__main__":
    main(sys.argv[1:])
