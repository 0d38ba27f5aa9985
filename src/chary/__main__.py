"""`python -m chary` is the `chary` command."""

from chary.cli import main

if __name__ == "__main__":
    main()
