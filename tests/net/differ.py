"""Says what differs from what the net keeps: `python -m tests.net.differ`, of all or of the parts that are named.

Exit code 1 where anything does. Parts are those of `tests.net.record`.
"""

import sys

from tests.net.kept import compare
from tests.net.record import parts


def main(asked):
    """One line a difference."""
    known, differs = parts(), False
    for part in asked or known:
        for path, (make, *given) in known[part].items():
            for line in compare(path, make(*given)):
                differs = True
                sys.stdout.write(f"{line}\n")
    return differs


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
