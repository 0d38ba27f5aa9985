"""Parts of requests that several routes read: the dataset with who asks it, numbers, pages, request keys."""

import re
import secrets
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote

from fastapi import Path, Query, Request
from fastapi.responses import JSONResponse

from chary.service.access.roles import Principal
from chary.service.api.admission import May, header
from chary.service.api.service_state import service_of
from chary.service.serving.served_datasets import Served
from chary.service.wire.problems import Refusal
from chary.service.wire.strict_json import finite

# Beyond this, JavaScript's numbers are no longer those that were sent.
_MOST: Final = 2**53
_LONGEST_KEY: Final = 500
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\["\\])*)"')

DatasetName = Annotated[str, Path(max_length=200, description="The name of a dataset.")]
Number = Annotated[int, Path(ge=1, le=_MOST, description="The number of a call in the ledger.")]
After = Annotated[int, Query(ge=0, le=_MOST, description="Only what comes after this number.")]
Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]
Typed = Annotated[bool, Query(description="Also the values from which chary's client makes an equal answer.")]


class Asking(NamedTuple):
    """Who asks, of which dataset."""

    who: Principal
    served: Served


@dataclass(frozen=True)
class On:
    """A dependency of a route: who asks and the dataset of the path, if the token may do this action there."""

    action: str

    def __call__(self, request: Request, dataset: DatasetName) -> Asking:
        who = May(self.action)(request)
        return Asking(who, service_of(request).datasets.for_(who, dataset))


def request_key(request: Request) -> str:
    """The key of `Idempotency-Key`, plain or as a quoted string, in UTF-8; a new one where there is none.

    Errors: `Refusal` with status 400 for one that is empty, longer than 500 characters or not printable.
    """
    said = header(request, "idempotency-key")
    if not request.headers.getlist("idempotency-key"):
        return f"service {secrets.token_hex(16)}"
    try:
        text = said.encode("latin-1").decode("utf-8").strip()
    except UnicodeError:
        text = ""
    quoted = _QUOTED.fullmatch(text)
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else text
    if not key.isprintable() or not 0 < len(key) <= _LONGEST_KEY:
        raise Refusal(400, f"an Idempotency-Key is a printable text of at most {_LONGEST_KEY} characters in UTF-8")
    return key


def key_header(key: str) -> str:
    """A request key as `Idempotency-Key` says it, in the characters that a header has.

    >>> key_header('a "b"')
    '"a \\\\"b\\\\""'
    """
    quoted = re.sub(r'(["\\])', r"\\\1", key)
    return f'"{quoted}"'.encode().decode("latin-1")


def paged(request: Request, items: list[dict[str, Any]], last: int | None) -> JSONResponse:
    """One page; `last` is the number after which the next one begins, None where there is none."""
    headers = {}
    if last is not None:
        following = request.url.include_query_params(after=last)
        # Names of datasets are in any script, and headers are not.
        headers["Link"] = f'<{quote(request.scope["path"])}?{following.query}>; rel="next"'
    return JSONResponse(finite({"items": items, "next": last}), headers=headers)
