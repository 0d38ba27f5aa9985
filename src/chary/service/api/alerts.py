"""Routes of alerts and their events."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import JSONResponse, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from chary.client.problems import Refusal
from chary.data.queries.bodies import check_fields
from chary.errors import InvalidParameter
from chary.service.api.calls import in_json_body
from chary.service.core import alerts, messages, requests, scheduler
from chary.service.http import admission
from chary.service.state import Service, Shared
from chary.session import Quote

router = APIRouter(prefix="/v1/datasets/{dataset}", tags=["standing"])
Stander = Annotated[admission.Asking, Depends(admission.On("stand"))]
Historian = Annotated[admission.Asking, Depends(admission.On("history"))]
# Feed readers can send no headers of their own.
Subscriber = Annotated[admission.Asking, Depends(admission.On("history", as_password=True))]
Name = Annotated[str, Path(pattern="^[0-9a-f]{16}$")]
LOOK_EVERY: Final = 0.5
_KNOWN: Final = frozenset({"call", "run", "question", "every", "share", "tell", "webhook"})
_BODY: Final = {
    "type": "object",
    "required": ["every", "share"],
    "additionalProperties": False,
    "properties": {
        "call": {
            "type": "object",
            "description": "A call to ask, or an alert to open; or a run with a question to it.",
        },
        "run": {"type": "integer"},
        "question": {"type": "object"},
        "every": {
            "type": "string",
            "maxLength": alerts.LONGEST_CRONTAB,
            "description": 'append, or a crontab in UTC such as "0 6 * * mon".',
        },
        "share": {"type": ["number", "string"], "description": "What all its calls may cost together."},
        "tell": {"enum": ["hits", "all"]},
        "webhook": {"type": ["string", "null"], "description": "The name of a webhook or a mail in the chary.toml."},
    },
}
_CHANGE: Final = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
    "properties": {
        "state": {"enum": [alerts.ACTIVE, alerts.PAUSED, alerts.ENDED]},
        "silence_hours": {"type": ["number", "string"], "description": "Nothing is sent for so long; 0 ends it."},
        "silence_until": {"type": "string", "description": "Nothing is sent until this time, in UTC."},
    },
}
_ACKNOWLEDGED: Final = {
    "type": "object",
    "required": ["acknowledged"],
    "additionalProperties": False,
    "properties": {"acknowledged": {"const": True}},
}


@router.post("/standing", status_code=201, openapi_extra=in_json_body(_BODY) | admission.KEYED)
async def stand(request: Request, on: Stander, body: admission.Body, service: Shared) -> JSONResponse:
    """Ask something at every append, or at a time, once for every version of the rows, within a part of the budget.

    It is checked as if it were asked now, and not asked before there is a version that is new. An alert is opened, and
    what stands is the question to its run. Under an `Idempotency-Key` that came before nothing is made or opened: the
    answer is what stands under it.
    """
    key = admission.request_key(request)
    found = await stood(service, on, body, key)
    return JSONResponse(found.as_dict(), 201, {"Idempotency-Key": admission.key_header(key)})


@router.get("/standing")
def standing(
    request: Request, on: Historian, service: Shared, after: admission.After = 0, limit: admission.Limit = 100
) -> JSONResponse:
    """The subscriptions that are shown to this token, oldest first, with what they cost so far; after this many.

    An `alert` says which groups are active, or whether it is, as of which `version` of the rows.
    """
    found = standing_shown(service, on, after, limit + 1)
    last = after + limit if len(found) > limit else None
    return admission.paged(request, [_with_state(on, each) for each in found[:limit]], last)


@router.put("/standing/{name}", openapi_extra=in_json_body(_CHANGE))
def turn(name: Name, on: Stander, body: admission.Body, service: Shared) -> JSONResponse:
    """Pause a subscription of one's own, let it go on, or silence it.

    As `{"state": "paused"}`, `{"state": "active"}`, `{"silence_hours": 8}` or `{"silence_until": "2026-03-01 06:00"}`.
    """
    told = 'what becomes of a subscription is said as {"state": "paused"} or {"silence_hours": 8}'
    check_fields(body, ["state", "silence_hours", "silence_until"], told)
    if len(body) != 1:
        raise InvalidParameter(told)
    if "state" in body:
        return JSONResponse(turned(service, on, name, str(body["state"])).as_dict())
    said = {"hours": body.get("silence_hours"), "until": body.get("silence_until")}
    return JSONResponse(silenced(service, on, name, **said).as_dict())


@router.delete("/standing/{name}")
def end(name: Name, on: Stander, service: Shared) -> JSONResponse:
    """End a subscription of one's own."""
    own_standing(service, on, name)
    service.trail.add(on.who, on.served.name, "stand", {"ended": name}, None)
    service.standing.book.keep(name, state=alerts.ENDED)
    return JSONResponse({"standing": name, "state": alerts.ENDED})


@router.get("/feed")
def feed(
    request: Request, on: Historian, service: Shared, after: admission.After = 0, limit: admission.Limit = 100
) -> JSONResponse:
    """What subscriptions found, oldest first: which call has the answer, never the answer itself."""
    found = service.standing.feed.since(on.served.name, after, limit, analyst=on.served.shown_of(on.who))
    last = found[-1]["number"] if len(found) == limit else None
    return admission.paged(request, found, last)


@router.get("/feed.atom", response_class=Response)
def atom(request: Request, on: Subscriber, service: Shared) -> Response:
    """The latest events for feed readers, as Atom. The token may come as the password of HTTP Basic, under any name."""
    found = service.standing.feed.latest(on.served.name, analyst=on.served.shown_of(on.who))
    return Response(messages.atom(on.served.name, _address(request), found), media_type="application/atom+xml")


@router.get("/feed.json")
def json_feed(request: Request, on: Subscriber, service: Shared) -> JSONResponse:
    """The latest events for feed readers, as a JSON feed. The token may come as the password of HTTP Basic, under any
    name."""
    found = service.standing.feed.latest(on.served.name, analyst=on.served.shown_of(on.who))
    told = messages.json_feed(on.served.name, _address(request), found)
    return JSONResponse(told, media_type="application/feed+json")


def _address(request: Request) -> str:
    """Where a feed is, without whatever was asked of it."""
    return str(request.url.replace(query="", fragment=""))


@router.put("/feed/{number}", openapi_extra=in_json_body(_ACKNOWLEDGED))
def acknowledge(
    number: admission.Number,
    on: Stander,
    body: admission.Body,
    service: Shared,
) -> JSONResponse:
    """Acknowledge what fired: `{"acknowledged": true}`. It is sent no more, and everybody sees who takes care of it."""
    if body != {"acknowledged": True}:
        raise InvalidParameter('what fired is acknowledged by {"acknowledged": true}')
    return JSONResponse(acknowledged(service, on, number))


def _begin(request: Request) -> int:
    """Where a stream goes on: after the last event that was heard."""
    said = admission.header(request, "last-event-id")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 16 else 0


@router.get("/feed/events", response_class=EventSourceResponse)
async def feed_events(
    on: Historian, service: Shared, after: Annotated[int, Depends(_begin)], _: admission.Followed
) -> AsyncIterator[ServerSentEvent]:
    """The feed as it grows; `Last-Event-ID` goes on where one stopped."""
    analyst = on.served.shown_of(on.who)
    async for _ in admission.looks(service, on.who.token, LOOK_EVERY):
        for each in await asyncio.to_thread(service.standing.feed.since, on.served.name, after, analyst=analyst):
            after = each["number"]
            yield ServerSentEvent(event=each["kind"], id=str(after), data=each)


async def stood(service: Service, on: admission.Asking, body: dict[str, Any], key: str) -> alerts.StandingQuestion:
    """A new subscription, as a body says it, in the audit log; or the one that stands under the key.

    What it would cost is a calculation, which may be cut off; what is written down then is not.
    """
    wish = wish_of(body)
    said: dict[str, Any] = {"every": body.get("every"), "tell": body.get("tell", "hits")}
    said |= {"share": body.get("share"), "webhook": body.get("webhook"), "key": key}
    before = await asyncio.to_thread(_before, service, on, wish, said)
    if before is not None:
        return before
    session = on.served.asked_by(on.who.analyst)
    quoted = await service.calculations.of(on.who.analyst, lambda: scheduler.quote_of(on.served, on.who, session, wish))
    return await asyncio.to_thread(_stood, service, on, wish, quoted, said)


def _before(
    service: Service, on: admission.Asking, wish: requests.Wish, said: dict[str, Any]
) -> alerts.StandingQuestion | None:
    """What stands under the key."""
    name = alerts.named(on.who, on.served.name, said["key"])
    if service.standing.book.named(name) is None:
        return None
    return service.standing.book.under(
        on.who, on.served.name, scheduler.opened(on.served, on.who, wish, name)[0], **said
    )


def _stood(
    service: Service, on: admission.Asking, wish: requests.Wish, quoted: Quote, said: dict[str, Any]
) -> alerts.StandingQuestion:
    if not isinstance(said["every"], str) or not (said["webhook"] is None or isinstance(said["webhook"], str)):
        raise InvalidParameter('every is "append" or a crontab, webhook the name of one or of a mail in the chary.toml')
    if said["webhook"] is not None and said["webhook"] not in service.delivery.receivers:
        raise InvalidParameter("there is no webhook of that name, and no mail, in the chary.toml")
    terms = {"every": said["every"], "tell": said["tell"], "now": service.standing.book.clock()}
    scheduler.check_change_fits(on.served, wish, alerts.share_of(said["share"], **terms), quoted)
    name = alerts.named(on.who, on.served.name, said["key"])
    service.trail.add(on.who, on.served.name, "stand", {"standing": name, "asked": wish.written()}, said["key"])
    asked, run = scheduler.opened(on.served, on.who, wish, name)
    return service.standing.stand(on.served, on.who, asked, quoted if run is None else run.quote(), **said)


def silenced(service: Service, on: admission.Asking, name: str, **said: Any) -> alerts.StandingQuestion:
    """A subscription of one's own, of which nothing is sent for a while; in the audit log."""
    own_standing(service, on, name)
    until = alerts.silence_of(service.standing.book.clock(), **said)
    service.trail.add(on.who, on.served.name, "stand", {"silenced": name, "until": until}, None)
    return service.standing.book.silence(name, until)


def acknowledged(service: Service, on: admission.Asking, number: int) -> dict[str, Any]:
    """Events that are shown to somebody who takes care of them from now on; in the audit log."""
    service.trail.add(on.who, on.served.name, "stand", {"acknowledged": number}, None)
    told = service.standing.feed.acknowledge(on.served.name, number, on.who.analyst, of=on.served.shown_of(on.who))
    service.delivery.acknowledged(number)
    return told


def turned(service: Service, on: admission.Asking, name: str, state: str) -> alerts.StandingQuestion:
    """A subscription of one's own, paused, going on or ended from now on; in the audit log."""
    own_standing(service, on, name)
    service.trail.add(on.who, on.served.name, "stand", {alerts.state_of(state): name}, None)
    return service.standing.book.turn(name, state, scheduler.version_of(on.served))


def own_standing(service: Service, on: admission.Asking, name: str) -> alerts.StandingQuestion:
    """The subscription of that name, if it is of one's own; for others it is not there."""
    found = service.standing.book.named(name)
    if found is None or (found.dataset, found.analyst) != (on.served.name, on.who.analyst):
        raise Refusal(404, "there is no subscription of that name")
    return found


def standing_shown(
    service: Service, on: admission.Asking, after: int = 0, limit: int | None = None
) -> list[alerts.StandingQuestion]:
    """The subscriptions that are shown to somebody, oldest first; after this many, this many."""
    return service.standing.book.all(on.served.name, analyst=on.served.shown_of(on.who), after=after, limit=limit)


def _with_state(on: admission.Asking, standing: alerts.StandingQuestion) -> dict[str, Any]:
    run = scheduler.alert_run(on.served.asked_by(standing.analyst), standing)
    if run is None:
        return standing.as_dict()
    state, told = run.state, {"severity": run.opened.severity, "note": run.opened.note}
    active = state.active
    if run.opened.counted.keys is not None:
        active = [scheduler.group_told(key) for key in active]
    return standing.as_dict() | {"alert": told | {"active": active, "version": state.version}}


def wish_of(body: dict[str, Any]) -> requests.Wish:
    """What is to stand, as a body says it: `InvalidParameter` for neither a call nor a run with a question."""
    told = "what stands is a call, or a run with a question; with every, share, tell and webhook"
    check_fields(body, _KNOWN, told)
    call, run, question = (body.get(name) for name in ("call", "run", "question"))
    if isinstance(call, dict) and run is None and question is None:
        return requests.Wish("ask", call)
    if call is None and type(run) is int and run > 0 and isinstance(question, dict):
        return requests.Wish("question", question, run)
    raise InvalidParameter(told)
