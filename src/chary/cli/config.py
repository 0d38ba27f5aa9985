"""Settings of a command from `chary.toml`, and places of files."""

import re
import tomllib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

from chary.cli.commands import BudgetOptions, SourceOptions
from chary.data import CSVFormat, Neighbors
from chary.data.source import Folder, is_address
from chary.errors import InvalidParameter
from chary.ledger import Ledger, Terms, ledger_exists, open_ledger, whereabouts
from chary.ledger.records import parsed
from chary.session.opening import kept_as, usual_ledger, usual_name

# A chary.toml: what is said once for all commands on some files, read and checked whole.
#
#     budget-delta = "1e-6"                        # holds for every file
#
#     [dataset.visits]                      # holds for one file, and wins; `chary test visits ...` finds it too
#     file = "data/visits.csv"
#     unit = "patient_id"
#     budget-epsilon = 1
#     columns = {age = "BIGINT", day = "DATE"}
#     keys = {clinic = "@clinics.txt"}      # for --by clinic without --keys
#
# Names are those of the options. Paths are relative to the folder of the chary.toml.

NAME: Final = "chary.toml"
# Of one command, not of all: these are not kept.
_ONCE: Final = {"file", "request"}


def _kinds() -> dict[str, Any]:
    """The type of each option that a file may hold."""
    hints = {each.name: get_type_hints(group)[each.name] for group in _GROUPS for each in fields(group)}
    return {name: next(iter(get_args(hint)), hint) for name, hint in hints.items() if name not in _ONCE}


_GROUPS: Final[tuple[Any, ...]] = (SourceOptions, BudgetOptions)
KINDS: Final = _kinds()


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
    """What is said of a file: in `config`, or else in the chary.toml of the working directory, or beside the file.

    Errors: `InvalidParameter` for a chary.toml that is none, or has unknown options.
    """
    if off and config is not None:
        raise InvalidParameter("give one of --config and --no-config")
    usual = (Path(NAME), Path(file).parent / NAME)
    place = config or next((each for each in usual if each.is_file()), None)
    if off or place is None:
        return Said()
    return _Reader(place).said(file)


class _Reader:
    """One chary.toml."""

    def __init__(self, place: Path) -> None:
        self.place, self.folder = place, place.parent
        table = _parsed(place)
        datasets = table.pop("dataset", {})
        table.pop("service", None)  # for `chary serve`, which reads it by itself
        if not _tables(datasets):
            raise InvalidParameter(f"{place}: datasets are tables, such as [dataset.visits]")
        self.shared = self._named(table, KNOWN)
        self.datasets = {name: self._named(each, KNOWN | {"file"}) for name, each in datasets.items()}

    def said(self, file: str) -> Said:
        """The options of every file, and of this one."""
        name = next((name for name, each in self.datasets.items() if self._meant(name, each, file)), None)
        own = {} if name is None else self.datasets[name]
        keys = self._keys(self.shared) | self._keys(own)
        found = {option: self._value(option, value) for option, value in (self.shared | own).items() if option in KINDS}
        if own.keys() & {"unit", "each_row", "series"}:
            found = {option: value for option, value in found.items() if option in own or option not in INSTEAD[0]}
        plots = (self.shared | own).get("plots")
        return Said(
            self.place,
            tuple(self.datasets),
            name,
            self._file(own) if name is not None and _by_name(name, file) else None,
            found,
            keys,
            None if plots is None else self.folder / self._text("plots", plots),
        )

    def _named(self, table: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
        named = {key.replace("-", "_"): value for key, value in table.items()}
        for key in named:
            if key not in known:
                near = get_close_matches(key, sorted(known), 1, 0.0)[0].replace("_", "-")
                raise InvalidParameter(f"{self.place}: there is no option {key!r}; the nearest is {near!r}")
        return named

    def _meant(self, name: str, table: Mapping[str, Any], file: str) -> bool:
        kept = self._file(table)
        if _by_name(name, file) or kept is None or is_address(kept) or is_address(file):
            return _by_name(name, file) or kept == file
        return Path(kept).resolve() == Path(file).resolve()

    def _file(self, table: Mapping[str, Any]) -> str | None:
        if "file" not in table:
            return None
        text = self._text("file", table["file"])
        return text if is_address(text) else str(self.folder / text)

    def _keys(self, table: Mapping[str, Any]) -> dict[str, str]:
        """The public keys of columns, as --keys takes them."""
        keys = table.get("keys", {})
        if not isinstance(keys, dict):
            raise InvalidParameter(f'{self.place}: keys are of columns, such as keys = {{clinic = "a,b,c"}}')
        return {column: self._listed(column, value) for column, value in keys.items()}

    def _listed(self, column: str, value: Any) -> str:
        if isinstance(value, list):
            return ",".join('"' + str(key).replace('"', '""') + '"' for key in value)
        text = self._text(f"keys.{column}", value)
        return f"@{self.folder / text[1:]}" if text.startswith("@") and text != "@-" else text

    def _value(self, name: str, value: Any) -> Any:
        """An option as it would have come from the command line."""
        kind = KINDS[name]
        if isinstance(value, dict) and name in ("columns", "csv_format"):
            pairs = [f"{key}={word(inner)}" for key, inner in value.items()]
            return pairs if name == "csv_format" else ",".join(pairs)
        if (
            isinstance(value, list)
            and name in ("csv_format", "unpivot")
            and all(isinstance(each, str) for each in value)
        ):
            return value if name == "csv_format" else ",".join(value)
        if name == "ledger" and "://" in self._text(name, value):
            return value
        if kind is Path or name == "ledger":
            made = self.folder / self._text(name, value)
            return made if kind is Path else str(made)
        if kind is str:
            return self._text(name, value)
        if type(value) is not kind:
            raise InvalidParameter(
                f"{self.place}: {name.replace('_', '-')} has another type, such as {_EXAMPLES[kind]}"
            )
        return value

    def _text(self, name: str, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise InvalidParameter(f"{self.place}: {name.replace('_', '-')} must be a text or a number")
        return str(value)


_EXAMPLES: Final[dict[Any, str]] = {bool: "true", int: "1", list[str]: '["delimiter=;"]'}
KNOWN: Final = {*KINDS, "keys", "plots", "shares", "share_answers"}
# Of these one is said: whichever is typed, or said of one file, puts the others out of force.
INSTEAD: Final = ({"unit", "each_row", "series"}, {"columns", "infer_types"})


def _parsed(place: Path) -> dict[str, Any]:
    try:
        # Floats stay as they are written: a budget is exact.
        return tomllib.loads(place.read_text(encoding="utf-8"), parse_float=str)
    except UnicodeDecodeError:
        raise InvalidParameter(f"{place} is no text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        # The place alone: what stands there may be data, where the wrong file was named.
        where = re.search(r"\(at [a-z0-9, ]*\)", str(error))
        raise InvalidParameter(f"{place} is no TOML {where[0] if where else ''}".rstrip()) from None


def _by_name(name: str, file: str) -> bool:
    """Whether a dataset is called by its name; a file of that name comes first."""
    return file == name and not Path(file).exists()


def _tables(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, dict) for each in value.values())


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
    if conditions.get("relation") not in _TABLES:
        return {}
    unit = conditions.get("unit")
    rows: dict[str, Any] = {"each_row": True} if unit is None else {"unit": unit}
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
    if "://" in named:
        return "?" in named and "schema=" in named
    try:
        with Path(named).open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except (OSError, ValueError):
        return False


def ledger_at(named: str) -> str | Path:
    """The ledger that a word names; where nothing else is found, the file of that name, whether it is there or not."""
    if "://" in named or is_ledger(named):
        return whereabouts(named)
    kept = said(None, named, off=False)
    if (place := kept.options.get("ledger")) is not None:
        return whereabouts(str(place))
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
        rows = named.removesuffix(".ledger")
        raise InvalidParameter(f"{named} is a ledger: name the rows it is of" + (f", {rows}" if rows != named else ""))
    if "://" in named or is_address(named) or Path(named).exists() or Folder.named(named) is not None:
        return
    told = f"{NAME} names {', '.join(known)}" if known else f"there is no {NAME} that names datasets"
    raise InvalidParameter(f"there is no file and no dataset {named!r}; {told}")
