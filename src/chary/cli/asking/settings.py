"""The options of one command line: what was typed, or else a chary.toml says, or else the ledger recorded.

What is typed wins over the file, and the file over the ledger; a budget or a unit that is said must agree with the
ledger, as without a file.
"""

from contextlib import closing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from chary.cli.asking.toml import INSTEAD, Said, said, word
from chary.data import CSV, Relation
from chary.data.source import is_address
from chary.ledger import Terms, ledger_exists, open_ledger, whereabouts
from chary.ledger.records import parsed
from chary.session.opening import kept_as, usual_ledger, usual_name

TYPED, LEDGER, USUAL = "command line", "ledger", "default"
_TABLES: Final = (Relation.ADD_REMOVE, Relation.REPLACE)


@dataclass(frozen=True)
class Settings:
    """What was typed, what the chary.toml says, and, once options are filled, where each comes from."""

    typed: frozenset[str] = frozenset()
    said: Said = field(default_factory=Said)
    origins: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, values: dict[str, Any], typed: frozenset[str]) -> "Settings":
        """Those of a command line; what names the file of the settings is taken out of its options."""
        config, off = values.pop("config"), values.pop("no_config")
        return cls(typed, said(config, values["file"], off=off))

    def filled(self, values: dict[str, Any]) -> dict[str, Any]:
        """The options of a command with what need not be typed."""
        found = values | ({"file": self.said.file} if self.said.file is not None else {})
        found = self._from(str(self.said.place), dict(self.said.options), found)
        if "unit" in found:
            found = self._from(LEDGER, _recorded(found), found)
        picture = found.get("plot")
        if picture is not None and self.said.plots is not None and picture.parent == Path():
            found["plot"] = self.said.plots / picture
        return self.keyed(found)

    def keyed(self, found: dict[str, Any]) -> dict[str, Any]:
        """With the public keys of the columns that a question is by, where it lists none."""
        columns = (found.get("by") or "").split(",")
        kept = [self.said.keys[column] for column in columns if column in self.said.keys]
        return found | {"keys": kept} if not found.get("keys") and len(kept) == len(columns) else found

    def origin(self, name: str) -> str:
        """Where the value of an option comes from."""
        return TYPED if name in self.typed else self.origins.get(name, USUAL)

    def _from(self, origin: str, given: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
        """What is given there and nowhere before."""
        before = self.typed | self.origins.keys()
        shut = {name for names in INSTEAD if names & before for name in names}
        new = {name: value for name, value in given.items() if name in found and name not in before | shut}
        self.origins.update(dict.fromkeys(new, origin))
        return found | new


def _recorded(found: dict[str, Any]) -> dict[str, Any]:
    """What the ledger holds of these rows: their unit and neighbours, and how a CSV is read."""
    if found["ledger"] is None and is_address(found["file"]):
        return {}
    place = whereabouts(found["ledger"] or usual_ledger(found["file"]))
    if found["series"] is not None or not ledger_exists(place):
        return {}
    with closing(open_ledger(place)) as ledger:
        known = {terms.name: terms for terms in ledger.datasets()}
        held = known.get(kept_as(known, usual_name(found["file"], found["table"])))
    return {} if held is None else _options(held)


def _options(held: Terms) -> dict[str, Any]:
    conditions = parsed(held.conditions, "conditions")
    if conditions.get("relation") not in map(str, _TABLES):
        return {}
    unit = conditions.get("unit")
    rows: dict[str, Any] = {"each_row": True} if unit is None else {"unit": unit}
    rows["relation"] = conditions["relation"]
    usual = {each.name: each.default for each in fields(CSV)}
    dialect = {name: conditions.get(f"csv {name}", value) for name, value in usual.items()}
    if kept := [f"{name}={word(value)}" for name, value in dialect.items() if value != usual[name]]:
        rows["csv"] = kept
    return rows | ({"infer_types": True} if "types" in conditions else {})
