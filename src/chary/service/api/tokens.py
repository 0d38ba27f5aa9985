"""Routes of tokens."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import JSONResponse

from chary.client.problems import Refusal
from chary.errors import InvalidParameter
from chary.service.auth.tokens import Principal, TokenRecord
from chary.service.http.admission import After, Limit, May, paged, strict_body
from chary.service.http.json import check_fields
from chary.service.state import Service, Shared

router = APIRouter(prefix="/v1", tags=["custodians"])
Keeper = Annotated[Principal, Depends(May("tokens"))]
TokenName = Annotated[str, Path(pattern="^[0-9a-f]{16}$")]
_SAID = frozenset({"analyst", "roles", "datasets", "days"})


@router.post("/tokens", status_code=201)
def make(who: Keeper, body: Annotated[dict[str, Any], Depends(strict_body)], service: Shared) -> JSONResponse:
    """A new token, shown this once: `{"analyst": "al", "roles": ["analyst"], "datasets": ["visits"], "days": 9}`."""
    return JSONResponse({"token": token_made(service, who, body)}, 201)


@router.get("/tokens")
def tokens(who: Keeper, service: Shared) -> JSONResponse:
    """The tokens for datasets of this one, without their secrets."""
    return JSONResponse({"items": [asdict(each) for each in tokens_kept(service, who)]})


@router.delete("/tokens/{token}")
def revoke(token: TokenName, who: Keeper, service: Shared) -> JSONResponse:
    """End a token now."""
    return JSONResponse({"revoked": token_ended(service, who, token)})


@router.get("/trail")
def trail(
    request: Request,
    who: Annotated[Principal, Depends(May("trail"))],
    service: Shared,
    after: After = 0,
    limit: Limit = 100,
) -> JSONResponse:
    """Who asked what, from which token, when: entries of the datasets of this token, oldest first."""
    found = service.trail.entries(after, limit)
    last = found[-1].number if len(found) == limit else None
    return paged(request, [asdict(each) for each in found if _in_trail(who, each.dataset)], last)


@router.get("/trail/checked")
def checked(who: Annotated[Principal, Depends(May("trail"))], service: Shared) -> JSONResponse:
    """Whether every entry is as it was written: the number of the first that is not, or nothing."""
    return JSONResponse({"broken": service.trail.broken()})


def token_made(service: Service, who: Principal, said: dict[str, Any]) -> str:
    """A new token, as somebody says it who may make it; in the trail without its secret.

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
    """The tokens for datasets of this one, oldest first."""
    return [each for each in service.tokens.all() if _kept_by(who, each)]


def _kept_by(who: Principal, token: TokenRecord) -> bool:
    return who.everywhere or all(name != "*" and who.sees(name) for name in token.datasets)


def _in_trail(who: Principal, dataset: str) -> bool:
    return who.everywhere if dataset == "" else who.sees(dataset)
