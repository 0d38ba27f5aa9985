"""Writes what the net compares with: `python -m tests.net.record`, all of it, or the parts that are named.

Parts are `transcripts` and `texts`, which say what the code does now, and are written anew whenever a change of
behaviour is meant; `python -m tests.net.differ` says before what would change. `golden` is what is kept for ever: it
is written anew only while nothing was released.
"""

import sys

from tests.net import commands, golden, open_api, sql, transcripts
from tests.net.kept import RECORDED, write


def name_of(recipe):
    """The file of a recipe."""
    return RECORDED / "transcripts" / f"{recipe.replace(' ', '_')}.jsonl"


def parts():
    """How each file is made, by part and path."""
    recipes = {name_of(recipe): (transcripts.transcript, recipe) for recipe in transcripts.EVERY}
    texts = {
        "help": (commands.helps,),
        "commands": (commands.asking,),
        "open_api": (open_api.document,),
        **{f"sql_{dialect}": (sql.statements, dialect) for dialect in sql.DIALECTS},
    }
    return {
        "transcripts": recipes,
        "texts": {RECORDED / "texts" / f"{name}.jsonl": made for name, made in texts.items()},
    }


def main(asked):
    known = parts()
    for part in asked or [*known, "golden"]:
        if part == "golden":
            golden.make()
            continue
        for path, (make, *given) in known[part].items():
            write(path, make(*given))


if __name__ == "__main__":
    main(sys.argv[1:])
