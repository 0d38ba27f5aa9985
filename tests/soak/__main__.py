"""python -m tests.soak: the attacks, one after another, and their figures."""

from tests.soak.runner import main

if __name__ == "__main__":
    main()
