"""Routes of custodians: uploaded rows, appended batches, reports, tokens, the audit log."""

import asyncio
import gzip
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any, Final, Literal, NamedTuple

import pyarrow as pa
from fastapi import APIRouter, Depends, Query, Request
from fastapi import Path as PathParameter
from fastapi.responses import JSONResponse, Response
from sqlalchemy import insert, select

from chary.client.files import ARROW, ARROW_FILE, CSV_TEXT, PARQUET, TSV_TEXT
from chary.client.problems import Refusal
from chary.client.wire import in_typed, of_typed
from chary.data.predicates.conditions import read_date, read_timestamp
from chary.data.queries.bodies import check_fields, parsed_body
from chary.data.spool import spool_folder
from chary.errors import InvalidParameter, OwnerWarning, SchemaMismatch
from chary.ledger.entries import head_of, now
from chary.report.public_report import PublicReport, report
from chary.service.auth.tokens import Principal, TokenRecord
from chary.service.core.datasets import ReportInPages, rows_of
from chary.service.core.requests import finite
from chary.service.core.scheduler import version_of
from chary.service.http import admission
from chary.service.state import Service, Shared
from chary.service.store import PUBLISHED
from chary.session import session

# Routes of custodians: rows that are uploaded, appended batches, reports.

# Rows that a custodian sends: Arrow, Parquet, JSON objects, a CSV. What is wrong with them is told without them.

# Of a dataset of which no dialect was said, the name of a batch tells whether tabs part its cells.
_FILES: Final = {CSV_TEXT: "rows.csv", TSV_TEXT: "rows.tsv", PARQUET: "rows.parquet"}
_MEDIA: Final = (admission.JSON, ARROW, ARROW_FILE, *_FILES)
# What JSON has no word for comes as text.
_READ: Final[Mapping[str, Callable[[str], Any]]] = {"date": read_date, "timestamp": read_timestamp}


@contextmanager
def brought_rows(media: str, raw: bytes, schema: Mapping[str, str]) -> Iterator[pa.Table | str]:
    """The rows of a body, as what a session appends; `SchemaMismatch` for what is no table of these columns.

    A CSV or a Parquet file is a file of this user alone while the block runs. The session reads it as it reads all
    batches: a CSV by the types and the dialect of its dataset.

    >>> with brought_rows("application/json", b'{"rows": [{"age": 70}]}', {"age": "int64"}) as rows:
    ...     rows.num_rows
    1
    """
    if media not in _FILES:
        yield _of_json(raw, schema) if media == admission.JSON else _of_arrow(raw, media)
        return
    with spool_folder() as folder:
        place = folder / _FILES[media]
        place.write_bytes(raw)
        yield str(place)


def _of_arrow(raw: bytes, media: str) -> pa.Table:
    try:
        with (pa.ipc.open_stream if media == ARROW else pa.ipc.open_file)(raw) as opened:
            table: pa.Table = opened.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError):
        table = None
    if table is None:
        raise SchemaMismatch(f"the body is no Arrow {'stream' if media == ARROW else 'file'} of one table")
    return table


def _of_json(raw: bytes, schema: Mapping[str, str]) -> pa.Table:
    body = parsed_body(raw)
    rows = body.get("rows")
    check_fields(body, ["rows"], 'rows are sent as {"rows": [{...}, ...]}')
    if not isinstance(rows, list) or not rows:
        raise SchemaMismatch('rows are sent as {"rows": [{...}, ...]}')
    if not all(isinstance(row, dict) and row.keys() == schema.keys() for row in rows):
        raise SchemaMismatch(f"each row has the columns {', '.join(schema)}, and no other")
    try:
        table = pa.table({name: [_cell(row[name], kind) for row in rows] for name, kind in schema.items()})
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        table = None
    if table is None:
        raise SchemaMismatch("a column of these rows has values of several types, or of another one than declared")
    return table


def _cell(value: Any, kind: str) -> Any:
    read = _READ.get(kind)
    if read is None or value is None:
        return value
    if (found := read(value)) is None:
        raise ValueError
    return found


# What a custodian does: rows that arrive, shares of the budget, the report; and the report for everybody.

router = APIRouter(prefix="/v1/datasets/{dataset}", tags=["custodians"])
Publisher = Annotated[admission.Asking, Depends(admission.On("publish"))]
Form = Annotated[Literal["json", "html", "markdown", "csv", "typed"], Query()]
# The page needs nothing from elsewhere, and is given nothing.
_ALONE: Final = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"}
_TEXTS: Final = ("html", "markdown", "csv")
# So long an append waits for subscriptions, and for appends through other processes.
_PATIENCE: Final = 60.0
_ROWS: Final = {
    "requestBody": {
        "required": True,
        "content": {
            admission.JSON: {
                "schema": {"type": "object", "required": ["rows"], "properties": {"rows": {"type": "array"}}}
            },
            **{media: {"schema": {"type": "string", "format": "binary"}} for media in (ARROW, ARROW_FILE, PARQUET)},
            CSV_TEXT: {"schema": {"type": "string"}},
            TSV_TEXT: {"schema": {"type": "string"}},
        },
    }
}


@router.post("/appends", openapi_extra=_ROWS | admission.KEYED)
async def append(
    request: Request, on: Annotated[admission.Asking, Depends(admission.On("append"))], service: Shared
) -> JSONResponse:
    """Add a batch of rows; its version. Under an `Idempotency-Key` that came before, nothing is added: `"new": false`.

    `unparsed`, where there is any, counts by column the cells of this batch that are not of its type: they are NULL.
    Where appended rows live in this process, the answer has `"kept": false`: a restart forgets them and their keys, and
    the same key adds the batch again.

    Several processes share the rows of a server's table. Of everything else each has rows of its own, so that none
    takes any.
    """
    media = admission.media_of(request, _MEDIA)
    raw, key = await admission.read_body(request, service.config.service.rows_bytes), admission.request_key(request)
    found = await appended(service, on, media, raw, key)
    said: dict[str, Any] = {} if found.new else {"new": False}
    said |= {} if on.served.keeps_rows else {"kept": False}
    said |= {"unparsed": found.unparsed} if found.unparsed else {}
    return JSONResponse({"version": found.version} | said)


@router.put("/shares/{analyst}")
def share(
    analyst: str,
    on: Annotated[admission.Asking, Depends(admission.On("cap"))],
    body: admission.Body,
    service: Shared,
) -> JSONResponse:
    """Cap an analyst at a fraction of the budget, such as `{"share": "0.5"}`; it may be changed at any time."""
    told = 'a quota is said as {"share": "0.5"}'
    check_fields(body, ["share"], told)
    if "share" not in body:
        raise InvalidParameter(told)
    capped(service, on, analyst, body["share"])
    return JSONResponse({"analyst": analyst, "share": str(body["share"])})


@router.get("/report/draft")
def draft(request: Request, on: Publisher, service: Shared, form: Form = "json") -> Response:
    """What would be published now."""
    head = head_of(on.served.session.spine.ledger)
    made = partial(report, on.served.session)
    if head is None:
        return _sent(request, gzip.compress(_written(made(), form).encode()), form)
    key = on.served.name, f"draft {head}", form
    return _sent(request, service.reports.text(key, lambda: _written(made(), form)), form)


@router.post("/report", status_code=201)
def publish(on: Publisher, service: Shared, title: str | None = None, introduction: str | None = None) -> JSONResponse:
    """Publish the report of now, under a title and an introduction of one's own.

    From then on, everybody with a token for the dataset may read it.
    """
    made = published_now(service, on, title, introduction)
    return JSONResponse({"made": made.made, "head": made.head}, 201)


@router.get("/report")
def published(
    request: Request,
    on: Annotated[admission.Asking, Depends(admission.On("look"))],
    service: Shared,
    form: Form = "json",
) -> Response:
    """The report that was published last."""
    return published_text(request, on, service, form)


def published_text(request: Request, on: admission.Asking, service: Service, form: str) -> Response:
    """The report that was published last in one of its forms; each is made once."""
    number = _last_number(service, on)
    text = service.reports.text((on.served.name, str(number), form), lambda: _written(_numbered(service, number), form))
    return _sent(request, text, form)


class Appended(NamedTuple):
    """A batch: its version, whether it is new or its key came before, and by column how many cells became NULL."""

    version: int
    new: bool
    unparsed: dict[str, int]


async def appended(service: Service, on: admission.Asking, media: str, raw: bytes, key: str) -> Appended:
    """Add the rows of a body, and let what stands be asked about them. In the audit log.

    Errors: `Refusal` with status 409 where several processes share no rows; those of `Session.append`.
    """
    if service.config.service.workers > 1 and not service.config.shared(on.served.name):
        told = "the processes of this service share no rows: keep them on a server, or append through a single process"
        raise Refusal(409, told)
    found = await asyncio.to_thread(_appended, service, on, media, raw, key)
    service.woken.set()
    return found


def _appended(service: Service, on: admission.Asking, media: str, raw: bytes, key: str) -> Appended:
    with brought_rows(media, raw, on.served.session.schema) as rows:
        # How many rows came may be secret, so the trail says that some came, and under which key.
        service.trail.add(on.who, on.served.name, "append", {}, key)
        with on.served.growing, service.store.held(rows_of(on.served.name), _PATIENCE):
            last = version_of(on.served)
            version, unparsed = session.appended(on.served.acting(on.who), rows, key)
    for name, found in unparsed.items():
        # The log, as that of an opening: who appended is told in the answer.
        warnings.warn(f"{on.served.name}, version {version}, {found.told(name)}", OwnerWarning, stacklevel=2)
    return Appended(version, version > last, {name: found.cells for name, found in unparsed.items()})


def capped(service: Service, on: admission.Asking, analyst: str, share: Any) -> None:
    """Cap an analyst at a fraction of the budget; in the audit log."""
    service.trail.add(on.who, on.served.name, "cap", {"analyst": analyst, "share": str(share)}, None)
    on.served.acting(on.who).set_quota(analyst, share)


def published_now(
    service: Service, on: admission.Asking, title: str | None = None, introduction: str | None = None
) -> PublicReport:
    """Publish the report of now; in the audit log."""
    made = report(on.served.session, title=title, introduction=introduction)
    service.trail.add(on.who, on.served.name, "publish", {"head": made.head}, None)
    row = {"dataset": on.served.name, "time": now(), "report": json.dumps(in_typed(made))}
    service.store.change(insert(PUBLISHED).values(**row))
    return made


def last_report(service: Service, on: admission.Asking) -> ReportInPages:
    """The report that was published last; `Refusal` with status 404 where none was."""
    number = _last_number(service, on)
    return service.reports.in_pages((on.served.name, str(number)), lambda: _numbered(service, number))


def _last_number(service: Service, on: admission.Asking) -> int:
    here = PUBLISHED.c.dataset == on.served.name
    found = service.store.rows(select(PUBLISHED.c.number).where(here).order_by(PUBLISHED.c.number.desc()).limit(1))
    if not found:
        raise Refusal(404, "no report of this dataset was published")
    number: int = found[0].number
    return number


def _numbered(service: Service, number: int) -> PublicReport:
    (found,) = service.store.rows(select(PUBLISHED.c.report).where(PUBLISHED.c.number == number))
    made: PublicReport = of_typed(json.loads(found.report))
    return made


def _written(made: PublicReport, form: str) -> str:
    if form in _TEXTS:
        return str(getattr(made, form)())
    told = in_typed(made) if form == "typed" else finite(made.to_dict())
    return json.dumps(told, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _sent(request: Request, text: bytes, form: str) -> Response:
    """A compressed text, as it is to anyone who takes it so."""
    media = f"text/{form}; charset=utf-8" if form in _TEXTS else admission.JSON
    headers = {"Vary": "Accept-Encoding"} | (_ALONE if form == "html" else {})
    if _takes_gzip(admission.header(request, "accept-encoding")):
        return Response(text, headers=headers | {"Content-Encoding": "gzip"}, media_type=media)
    return Response(gzip.decompress(text), headers=headers, media_type=media)


def _takes_gzip(said: str) -> bool:
    """Whether `Accept-Encoding` names gzip, and not with a weight of 0.

    >>> _takes_gzip("br, GZIP;q=0.5"), _takes_gzip("gzip; q=0.0, br"), _takes_gzip("")
    (True, False, False)
    """
    weights = dict(part.replace(" ", "").partition(";")[::2] for part in said.lower().split(","))
    return not re.fullmatch(r"q=0(\.0*)?", weights.get("gzip", "q=0"))


# Tokens and the audit trail.

token_router = APIRouter(prefix="/v1", tags=["custodians"])
Keeper = Annotated[Principal, Depends(admission.May("tokens"))]
TokenName = Annotated[str, PathParameter(pattern="^[0-9a-f]{16}$")]
_SAID = frozenset({"analyst", "roles", "datasets", "days"})


@token_router.post("/tokens", status_code=201)
def make(who: Keeper, body: admission.Body, service: Shared) -> JSONResponse:
    """A new token, shown this once: `{"analyst": "al", "roles": ["analyst"], "datasets": ["visits"], "days": 9}`."""
    return JSONResponse({"token": token_made(service, who, body)}, 201)


@token_router.get("/tokens")
def tokens(who: Keeper, service: Shared) -> JSONResponse:
    """The tokens that read a dataset of this one, without their secrets.

    One that is for other datasets too has `"revocable": false`, and is shown without the names of those.
    """
    told = [asdict(each) for each in tokens_kept(service, who)]
    told += [asdict(each) | {"revocable": False} for each in tokens_beyond(service, who)]
    return JSONResponse({"items": told})


@token_router.delete("/tokens/{token}")
def revoke(token: TokenName, who: Keeper, service: Shared) -> JSONResponse:
    """End a token now. `ends` counts the alerts and subscriptions that end with it, where there are any."""
    ends = service.standing.book.ending_with(token)
    return JSONResponse({"revoked": token_ended(service, who, token)} | ({"ends": ends} if ends else {}))


@token_router.get("/trail")
def trail(
    request: Request,
    who: Annotated[Principal, Depends(admission.May("trail"))],
    service: Shared,
    after: admission.After = 0,
    limit: admission.Limit = 100,
) -> JSONResponse:
    """The questions of analysts, with their tokens and times: entries of the datasets of this token, oldest first."""
    found = service.trail.entries(after, limit)
    last = found[-1].number if len(found) == limit else None
    shown = (each for each in found if (who.sees(each.dataset) if each.dataset else who.everywhere))
    return admission.paged(request, [asdict(each) for each in shown], last)


@token_router.get("/trail/checked")
def checked(who: Annotated[Principal, Depends(admission.May("trail"))], service: Shared) -> JSONResponse:
    """Whether every entry is as it was written: the number of the first that is not, or nothing."""
    return JSONResponse({"broken": service.trail.broken()})


def token_made(service: Service, who: Principal, said: dict[str, Any]) -> str:
    """A new token, as somebody says it who may make it; in the audit log without its secret.

    Errors: `Refusal` with status 403 for datasets beyond those of its maker; those of `BearerTokens.make`.
    """
    told = "a token is of an analyst, with roles, datasets (lists) and days"
    check_fields(said, _SAID, told)
    if said.keys() != _SAID or not all(isinstance(said[name], list) for name in ("roles", "datasets")):
        raise InvalidParameter(told)
    if not all(isinstance(name, str) and (who.everywhere or who.sees(name)) for name in said["datasets"]):
        raise Refusal(403, "a token is at most for the datasets of its maker")
    service.trail.add(who, "", "tokens", {name: said[name] for name in sorted(_SAID)}, None)
    return service.tokens.make(**said)


def token_ended(service: Service, who: Principal, token: str) -> bool:
    """End a token now, whether it was valid; `Refusal` with status 404 for one that is not somebody's to end."""
    if not any(each.token == token for each in tokens_kept(service, who)):
        raise Refusal(404, "there is no token of that name")
    service.trail.add(who, "", "tokens", {"revoked": token}, None)
    return service.tokens.revoke(token)


def tokens_kept(service: Service, who: Principal) -> list[TokenRecord]:
    """The tokens that somebody may end, oldest first: those for no other datasets than this one's."""
    return [each for each in service.tokens.all() if _within(each, who)]


def tokens_beyond(service: Service, who: Principal) -> list[TokenRecord]:
    """The tokens that somebody may not end, and that read a dataset of this one: of their datasets these, or "*"."""
    beyond = ((each, _common(each, who)) for each in service.tokens.all() if not _within(each, who))
    return [replace(each, datasets=common) for each, common in beyond if common]


def _within(token: TokenRecord, who: Principal) -> bool:
    return who.everywhere or all(name != "*" and who.sees(name) for name in token.datasets)


def _common(token: TokenRecord, who: Principal) -> tuple[str, ...]:
    return tuple(name for name in token.datasets if name == "*" or who.sees(name))
