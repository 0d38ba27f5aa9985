"""`chary config` and `chary init`: what holds for a file and where from, and the chary.toml that says it."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from chary.cli.asking.opened import declared, dialect
from chary.cli.asking.row_commands import ROWS, Stated, on_rows
from chary.cli.asking.settings import TYPED
from chary.cli.asking.toml import KINDS, NAME
from chary.cli.commands import Found, Shown
from chary.cli.output import show_pairs
from chary.errors import InvalidParameter
from chary.filters import Budget
from chary.session.opening import usual_name


def _config(stated: Stated) -> Found:
    """Which options hold for a file, and where each comes from: command line, chary.toml, ledger or default."""
    said = stated.settings.said
    rows = [
        {"option": name.replace("_", "-"), "value": _plain(value), "from": stated.settings.origin(name)}
        for name, value in _options(stated).items()
        if value not in (None, False)
    ]
    rows += [{"option": f"keys.{name}", "value": keys, "from": str(said.place)} for name, keys in said.keys.items()]
    if said.plots is not None:
        rows.append({"option": "plots", "value": str(said.plots), "from": str(said.place)})
    place = None if said.place is None else str(said.place)
    yield Shown({"file": stated.source.shown, "config": place, "dataset": said.dataset, "options": rows})


def _init(stated: Stated) -> Found:
    """Write what is typed here into a chary.toml, so that no later command on the file repeats it.

    Example: chary init visits.csv --unit patient_id --columns age=BIGINT --epsilon 1 --delta 1e-6
    """
    source, place = stated.source, Path(NAME)
    if source.on_server and urlsplit(source.file).password:
        raise InvalidParameter("a chary.toml is no place for a password: leave it to ~/.pgpass")
    if (source.unit is not None) + source.each_row + (source.series is not None) != 1:
        raise InvalidParameter("say what is protected: --unit COLUMN, or --each-row if every row is a unit of its own")
    if stated.settings.said.dataset is not None:
        raise InvalidParameter(f"{stated.settings.said.place} has options for {source.shown}: change them there")
    declared(source.columns), dialect(source.csv)
    if stated.budget.epsilon is not None:
        Budget(stated.budget.epsilon, stated.budget.delta or 0)
    name = usual_name(source.file, source.table)
    typed = {name: _plain(value) for name, value in _options(stated).items() if stated.settings.origin(name) == TYPED}
    lines = [f"[dataset.{json.dumps(name)}]", f"file = {_written(source.file)}"]
    lines += [f"{name.replace('_', '-')} = {_written(value)}" for name, value in typed.items()]
    before = "\n" if place.exists() else ""
    with place.open("a", encoding="utf-8") as opened:
        opened.write(before + "\n".join(lines) + "\n")
    yield Shown({"config": NAME, "dataset": name, "file": source.shown, **typed}, show_pairs)


def _options(stated: Stated) -> dict[str, Any]:
    groups: tuple[Any, ...] = (stated.source, stated.budget)
    return {each.name: getattr(group, each.name) for group in groups for each in fields(group) if each.name in KINDS}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _written(value: Any) -> str:
    # JSON's texts, numbers, truths and lists are TOML's too, but for a pair of escapes that stands for one sign.
    return json.dumps(value, ensure_ascii=False)


config = on_rows(_config, ROWS, "config")
init = on_rows(_init, ROWS, "init")
