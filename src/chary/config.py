"""`chary.toml`: what is said once for every command on some files, and for a service; read and checked whole.

    budget-delta = "1e-6"                 # holds for every file

    [dataset.visits]                      # holds for one file, and wins; `chary test visits ...` finds it too
    file = "data/visits.csv"
    unit = "patient_id"
    budget-epsilon = 1
    columns = {age = "BIGINT", day = "DATE"}
    blocks = {column = "day", every = "month", since = "2012-01"}   # each month has the budget for itself
    keys = {clinic = "@clinics.txt"}      # for --by clinic without --keys
    shares = {alice = "0.5"}              # of the service: of the budget, for one analyst

Names are those of the options of commands. Paths are relative to the folder of the chary.toml. The table [service] is
for `chary serve`, which reads it by itself.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictInt, ValidationError

from chary.addresses import is_url
from chary.data import Blocks, CSVFormat
from chary.errors import InvalidParameter
from chary.numbers import exact

NAME: Final = "chary.toml"
# Of these one is said: whichever is said of one file puts out of force what is said of all.
UNITS: Final = frozenset({"unit", "row_level", "series"})


class StrictOptions(BaseModel):
    """Options under their names in a chary.toml, with dashes; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=lambda name: name.replace("_", "-"))


class Placed(StrictOptions):
    """What has paths, which are relative to the folder of the chary.toml."""

    folder: Path

    def place(self, said: str) -> str:
        """Where a path leads; URLs are as they are."""
        return said if is_url(said) else str(self.folder / said)


def _text(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError("must be a text or a number")
    return str(value)


Text = Annotated[str, BeforeValidator(_text)]
"""A text; a number is taken as it is written."""


def _fraction(value: Any) -> Any:
    text = _text(value)
    try:
        part = exact(text, "quota")
    except InvalidParameter:
        part = None
    if part is None or not 0 <= part <= 1:
        raise ValueError("must be a fraction of the budget, from 0 to 1, such as 0.5 for half of it")
    return text


def declared(columns: str) -> dict[str, str]:
    """The types of columns in one text, of which "" says that there are none; `ValueError` for any other text.

    >>> declared("age=BIGINT,cost=DECIMAL(8,2)")
    {'age': 'BIGINT', 'cost': 'DECIMAL(8,2)'}
    """
    # A comma within parentheses belongs to a type.
    parts = [part.partition("=") for part in re.split(r",(?![^(]*\))", columns)] if columns else []
    if not all(name and kind for name, _, kind in parts):
        raise ValueError('must name types, such as "age=BIGINT,cost=DOUBLE"')
    return {name.strip(): kind.strip() for name, _, kind in parts}


def dialect(said: Mapping[str, Any]) -> CSVFormat | None:
    """How a CSV is written; nothing said is nothing. `InvalidParameter` for an option that a dialect has not.

    >>> dialect({"delimiter": ";", "header": "no"})
    CSVFormat(delimiter=';', quote='"', escape='"', header=False, null='', decimal='.', date_format=None,
        timestamp_format=None, encoding='utf-8')
    """
    known = {each.name for each in fields(CSVFormat)}
    if unknown := [name for name in said if name not in known]:
        raise InvalidParameter(
            f"csv-format has no {unknown[0]!r}; it takes {', '.join(sorted(known))}, such as 'null=NA'"
        )
    values = dict(said)
    values |= {"header": said["header"] not in ("no", False)} if "header" in said else {}
    values |= {"quote": None} if said.get("quote") == "" else {}
    return CSVFormat(**values) if said else None


def blocks(said: Mapping[str, Any]) -> Blocks:
    """Budgets that renew, as they are written; `InvalidParameter` for what is no rule of blocks.

    >>> blocks({"column": "day", "every": "month", "since": "2012-01", "kept": "24"})
    Blocks(column='day', every='month', since='2012-01', kept=24)
    """
    known = {each.name for each in fields(Blocks)}
    if unknown := [name for name in said if name not in known]:
        raise InvalidParameter(f"blocks have no {unknown[0]!r}; they take {', '.join(sorted(known))}")
    kept = str(said.get("kept", "1"))
    if not kept.isdecimal():
        raise InvalidParameter("blocks are kept for a number of them, such as 'kept=24'")
    made: dict[str, Any] = {"column": "", **said} | ({"kept": int(kept)} if "kept" in said else {})
    return Blocks(**made)


def named(options: Iterable[str]) -> dict[str, str]:
    """Options such as "delimiter=;" by their names."""
    return dict(option.partition("=")[::2] for option in options)


def _columns(value: Any) -> Any:
    return declared(value) if isinstance(value, str) else value


def _names(value: Any) -> Any:
    return tuple(value.split(",")) if isinstance(value, str) else value


def _named(value: Any) -> Any:
    texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return named(value) if texts else value


class RowOptions(StrictOptions):
    """What is said of rows: options of commands, and who shares what of a served dataset."""

    unit: Text | None = None
    row_level: StrictBool = False
    neighbors: Text = "add_remove"
    table: Text | None = None
    engine: Text | None = None
    columns: Annotated[Mapping[str, Text] | None, BeforeValidator(_columns)] = None
    csv_format: Annotated[Mapping[str, Any] | None, BeforeValidator(_named)] = None
    infer_types: StrictBool = False
    unpivot: Annotated[tuple[Text, Text] | None, BeforeValidator(_names)] = None
    blocks: Annotated[Mapping[str, Text] | None, BeforeValidator(_columns)] = None
    series: Text | None = None
    sensitivity: StrictInt | None = None
    order_by: Text | None = None
    labels: Text | None = None
    budget_epsilon: Text | None = None
    budget_delta: Text = "0"
    filter: Text | None = None
    grain: Text | None = Field(default=None, description="The epsilon that most calls are expected to have.")
    delta_reserve: Text = "0"
    ledger: Text | None = None
    checkpoint: Text | None = None
    analyst: Text = "analyst"
    share_answers: StrictBool = Field(
        default=False, description="A repeated question returns the stored answer of any analyst, free."
    )
    shares: Mapping[str, Annotated[str, BeforeValidator(_fraction)]] = Field(
        default_factory=dict, description="Of the budget, for one analyst each, such as alice = 0.5."
    )
    keys: Mapping[str, Text | tuple[Any, ...]] = Field(default_factory=dict)
    plots: Text | None = Field(default=None, description="The folder for pictures that are named without one.")

    @property
    def said(self) -> dict[str, Any]:
        """What was written, without what is usual."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class DatasetOptions(RowOptions):
    """What is said of one dataset."""

    file: Text | None = Field(default=None, description="The data: a file, or postgresql://role@host/database.")


class Config(Placed):
    """A whole chary.toml."""

    shared: RowOptions
    dataset: Mapping[str, DatasetOptions]
    service: Mapping[str, Any]

    def options(self, dataset: str | None) -> DatasetOptions:
        """What holds for a dataset, or for a file that none is about."""
        own = {} if dataset is None else self.dataset[dataset].said
        shared = {name: value for name, value in self.shared.said.items() if not (name in UNITS and own.keys() & UNITS)}
        keys = {**shared.get("keys", {}), **own.get("keys", {})}
        return DatasetOptions.model_construct(None, **(shared | own | ({"keys": keys} if keys else {})))


ModelT = TypeVar("ModelT", bound=BaseModel)


def read(place: Path) -> Config:
    """Read a chary.toml; `InvalidParameter` that names the option for what it cannot say."""
    table = _parsed(place)
    service, datasets = table.pop("service", {}), table.pop("dataset", {})
    if not isinstance(datasets, dict) or not all(isinstance(each, dict) for each in datasets.values()):
        raise InvalidParameter(f"{place}: datasets are tables, such as [dataset.visits]")
    own = {name: _dashed(each, place) for name, each in datasets.items()}
    said = {"folder": place.parent, "shared": _dashed(table, place), "dataset": own, "service": service}
    return checked(Config, said, str(place))


def checked(model: type[ModelT], said: Mapping[str, Any], place: str) -> ModelT:
    """What was said, checked; `InvalidParameter` names the first option that is wrong, and shows no value."""
    try:
        return model.model_validate(dict(said))
    except ValidationError as error:
        # What is missing may be what is spelled otherwise.
        found = error.errors(include_url=False, include_input=False)
        first = min(found, key=lambda each: each["type"] != "extra_forbidden")
    # Of a choice of types the place has words of the library, which has nothing to do with what was written.
    where = [str(part) for part in first["loc"] if part != "shared" and not set(str(part)) & set("[()")]
    if first["type"] == "extra_forbidden":
        known = sorted(each.alias or name for name, each in _at(model, first["loc"][:-1]).model_fields.items())
        near = get_close_matches(where[-1], known, 1, 0.0)[0]
        raise InvalidParameter(f"{place}: there is no option {'.'.join(where)!r}; the nearest is {near!r}")
    told = first["msg"].removeprefix("Value error, ")
    raise InvalidParameter(f"{place}: {'.'.join(where)}: {told[0].lower()}{told[1:]}")


def _at(model: type[BaseModel], place: Iterable[Any]) -> type[BaseModel]:
    """The options that are read at a place, which also has names and numbers of tables of one kind."""
    for part in place:
        field = next((each for name, each in model.model_fields.items() if part in (name, each.alias)), None)
        model = model if field is None else next(_models(field.annotation), model)
    return model


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


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
    except OSError:
        raise InvalidParameter(f"there is no {NAME} at {place}") from None


def _dashed(table: Mapping[str, Any], place: Path) -> dict[str, Any]:
    found: dict[str, str] = {}
    for name in table:
        if (other := found.setdefault(name.replace("_", "-"), name)) != name:
            raise InvalidParameter(f"{place}: {other} and {name} are one option: say it once")
    return {dashed: table[name] for dashed, name in found.items()}
