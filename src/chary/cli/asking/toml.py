"""A chary.toml: what is said once for all commands on some files, read and checked whole.

    delta = "1e-6"                        # holds for every file

    [dataset.visits]                      # holds for one file, and wins; `chary test visits ...` finds it too
    file = "data/visits.csv"
    unit = "patient_id"
    epsilon = 1
    columns = {age = "BIGINT", day = "DATE"}
    keys = {clinic = "@clinics.txt"}      # for --by clinic without --keys

Names are those of the options. Paths are relative to the folder of the chary.toml.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

from chary.cli.asking.options import BudgetOptions, SourceOptions
from chary.data.source import is_address
from chary.errors import InvalidParameter

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
        if isinstance(value, dict) and name in ("columns", "csv"):
            pairs = [f"{key}={word(inner)}" for key, inner in value.items()]
            return pairs if name == "csv" else ",".join(pairs)
        if isinstance(value, list) and name in ("csv", "unpivot") and all(isinstance(each, str) for each in value):
            return value if name == "csv" else ",".join(value)
        if name == "ledger" and "://" in self._text(name, value):
            return value
        if kind is Path or name == "ledger":
            made = self.folder / self._text(name, value)
            return made if kind is Path else str(made)
        if kind is str:
            return self._text(name, value)
        if type(value) is not kind:
            raise InvalidParameter(f"{self.place}: {name} has another type, such as {_EXAMPLES[kind]}")
        return value

    def _text(self, name: str, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise InvalidParameter(f"{self.place}: {name} must be a text or a number")
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
    """A value of a dialect as `--csv` takes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
