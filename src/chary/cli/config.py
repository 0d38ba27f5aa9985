"""Settings of a command from `chary.toml`, and places of files."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

from chary.addresses import is_server, is_url, place_of, without_password
from chary.cli.commands import BudgetOptions, SourceOptions
from chary.config import NAME, UNITS, Config, read
from chary.data import CSVFormat, Neighbors
from chary.data.queries.keys import columns_in
from chary.data.source import Folder
from chary.errors import InvalidParameter
from chary.ledger import Ledger, Terms, ledger_exists, open_ledger
from chary.ledger.records import parsed
from chary.session.opening import kept_as, usual_ledger, usual_name

# What a chary.toml says of one file, as it would have been typed.

# Of one command, not of all: these are not kept.
_ONCE: Final = {"file", "request"}


def _kinds() -> dict[str, Any]:
    """The type of each option that a file may hold."""
    hints = {each.name: get_type_hints(group)[each.name] for group in _GROUPS for each in fields(group)}
    return {name: next(iter(get_args(hint)), hint) for name, hint in hints.items() if name not in _ONCE}


_GROUPS: Final[tuple[Any, ...]] = (SourceOptions, BudgetOptions)
KINDS: Final = _kinds()
# Of these one is said: whichever is typed puts the others out of force.
INSTEAD: Final = (UNITS, {"columns", "infer_types"})


@dataclass(frozen=True)
class Said:
    """What one chary.toml says of one file; `known` are the datasets that it names."""

    place: Path | None = None
    known: tuple[str, ...] = ()
    dataset: str | None = None
    file: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    plots: Path | None = None


def said(config: Path | None, file: str, *, off: bool) -> Said:
    """What is said of a file: in `config`, or else in the chary.toml of the working directory, or next to the file.

    Errors: `InvalidParameter` for a chary.toml that is none, or has unknown options.
    """
    if off and config is not None:
        raise InvalidParameter("give one of --config and --no-config")
    usual = (Path(NAME), Path(file).parent / NAME)
    place = config or next((each for each in usual if each.is_file()), None)
    if off or place is None:
        return Said()
    found = read(place)
    name = next((name for name in found.dataset if _meant(found, name, file)), None)
    options = found.options(name)
    return Said(
        place,
        tuple(found.dataset),
        name,
        found.place(options.file) if name is not None and options.file and _by_name(name, file) else None,
        {option: _typed(found, option, value) for option, value in options.said.items() if option in KINDS},
        {column: _keys(found, keys) for column, keys in options.keys.items()},
        None if options.plots is None else found.folder / options.plots,
    )


def _meant(config: Config, name: str, file: str) -> bool:
    """Whether a dataset is that of a file, by its name or by its place."""
    kept = config.dataset[name].file
    if kept is None or _by_name(name, file):
        return _by_name(name, file)
    place = config.place(kept)
    return place == file if is_server(place) or is_server(file) else Path(place).resolve() == Path(file).resolve()


def _by_name(name: str, file: str) -> bool:
    """Whether a dataset is called by its name; a file of that name comes first."""
    return file == name and not Path(file).exists()


def _typed(config: Config, name: str, value: Any) -> Any:
    """An option as it would have come from the command line."""
    if isinstance(value, Mapping):
        pairs = [f"{key}={word(inner)}" for key, inner in value.items()]
        return pairs if name == "csv_format" else ",".join(pairs)
    if isinstance(value, tuple):
        return ",".join(value)
    if KINDS[name] is Path:
        return config.folder / value
    return config.place(value) if name == "ledger" else value


def _keys(config: Config, keys: str | tuple[Any, ...]) -> str:
    """Public keys of a column as --keys takes them."""
    if isinstance(keys, tuple):
        return ",".join('"' + str(key).replace('"', '""') + '"' for key in keys)
    return f"@{config.folder / keys[1:]}" if keys.startswith("@") and keys != "@-" else keys


def word(value: Any) -> str:
    """A value of a dialect as `--csv-format` takes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


# The options of one command line: what was typed, or else a chary.toml says, or else the ledger recorded.
#
# What is typed wins over the file, and the file over the ledger; a budget or a unit that is said must agree with the
# ledger, as without a file.

TYPED, LEDGER, USUAL = "command line", "ledger", "default"
_TABLES: Final = {each.stored: str(each) for each in (Neighbors.ADD_REMOVE, Neighbors.REPLACE)}


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
        if {"unit", "ledger"} <= found.keys():
            found = self._from(LEDGER, _recorded(found, self.said.dataset), found)
        picture = found.get("plot")
        if picture is not None and self.said.plots is not None and picture.parent == Path():
            found["plot"] = self.said.plots / picture
        return self.keyed(found)

    def keyed(self, found: dict[str, Any]) -> dict[str, Any]:
        """With the public keys of the columns that a question is by, where it lists none."""
        columns = columns_in(found.get("by") or "")
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


def _recorded(found: dict[str, Any], dataset: str | None) -> dict[str, Any]:
    """What the ledger holds of these rows: their unit and neighbours, and how a CSV is read."""
    if found["ledger"] is None and is_server(found["file"]):
        return {}
    place = place_of(found["ledger"] or usual_ledger(found["file"]))
    if found["series"] is not None or not ledger_exists(place):
        return {}
    with closing(open_ledger(place)) as ledger:
        known = {terms.name: terms for terms in ledger.datasets()}
        held = known.get(kept_as(known, usual_name(found["file"], found["table"])), known.get(dataset or ""))
    return {} if held is None else _options(held)


def _options(held: Terms) -> dict[str, Any]:
    conditions = parsed(held.conditions, "conditions")
    if conditions.get("relation") not in _TABLES:
        return {}
    unit = conditions.get("unit")
    rows: dict[str, Any] = {"row_level": True} if unit is None else {"unit": unit}
    rows["neighbors"] = _TABLES[conditions["relation"]]
    usual = {each.name: each.default for each in fields(CSVFormat)}
    dialect = {name: conditions.get(f"csv {name}", value) for name, value in usual.items()}
    if kept := [f"{name}={word(value)}" for name, value in dialect.items() if value != usual[name]]:
        rows["csv_format"] = kept
    return rows | ({"infer_types": True} if "types" in conditions else {})


# Which ledger a word of a command line names: a ledger itself, the rows whose ledger it is, or a dataset by name.

_SQLITE: Final = b"SQLite format 3\0"


def is_ledger(named: str) -> bool:
    """Whether a word names a ledger, and not rows: a file of SQLite, or the URL of a schema of a server."""
    if is_url(named):
        return "?" in named and "schema=" in named
    try:
        with Path(named).open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except (OSError, ValueError):
        return False


def ledger_at(named: str) -> str | Path:
    """The ledger that a word names; where nothing else is found, the file of that name, whether it is there or not."""
    if is_url(named) or is_ledger(named):
        return place_of(named)
    kept = said(None, named, off=False)
    if (place := kept.options.get("ledger")) is not None:
        return place_of(str(place))
    beside = Path(f"{kept.file or named}.ledger")
    return beside if kept.file is not None or ledger_exists(beside) else Path(named)


def one_dataset(ledger: Ledger, named: str | None) -> Terms:
    """The dataset of a ledger that is named, or its only one."""
    held = ledger.datasets()
    found = [terms for terms in held if named in (None, terms.name)]
    if len(found) != 1:
        names = ", ".join(terms.name for terms in held) or "none"
        raise InvalidParameter(f"name one dataset of this ledger by --dataset; it holds {names}")
    return found[0]


def check_rows(named: str, known: tuple[str, ...]) -> None:
    """Refuse a word that names no rows, with the datasets that a chary.toml does name."""
    if is_ledger(named):
        named = without_password(named)
        rows = named.removesuffix(".ledger")
        raise InvalidParameter(f"{named} is a ledger: name the rows it is of" + (f", {rows}" if rows != named else ""))
    if is_url(named) or Path(named).exists() or Folder.named(named) is not None:
        return
    told = f"{NAME} names {', '.join(known)}" if known else f"there is no {NAME} that names datasets"
    raise InvalidParameter(f"there is no file and no dataset {named!r}; {told}")
