"""What every form that asks does: begin it once, wait a little, lead on to the answer."""

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final

from fastapi.responses import RedirectResponse, Response

from chary.answers import Answer
from chary.calls.run import Run
from chary.service.api.call_routes import begun
from chary.service.api.places import Asking
from chary.service.api.service_state import Service
from chary.service.page.frame.shown_pages import place_of
from chary.service.serving.wishes import Wish

_ONCE: Final = re.compile(r"[0-9a-f]{32}")


def once() -> str:
    """What a form holds so that it asks once, however often it is sent."""
    return secrets.token_hex(16)


def page_key(said: str, body: Mapping[str, Any]) -> str:
    """The request key of a form: sent twice it has one answer, changed in between it asks anew."""
    kept = said if _ONCE.fullmatch(said) else once()
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return f"page {kept} {digest[:16]}"


async def settled(service: Service, on: Asking, wish: Wish, key: str) -> Response:
    """Ask it and lead on: to the answer, to the run, or to where one waits. Errors: those of the call."""
    job = await begun(service, on, wish, key)
    if not await service.jobs.settled(job, service.config.service.patience):
        return RedirectResponse(place_of(on.served.name, "ask", "jobs", job.name), 303)
    error = job.future.exception()
    if error is not None:
        raise error
    return led_on(on, job.future.result(), wish)


def led_on(on: Asking, found: Any, wish: Wish) -> Response:
    """To what was answered or opened."""
    name = on.served.name
    if isinstance(found, Run):
        return RedirectResponse(place_of(name, "ask", "runs", found.call), 303)
    if not isinstance(found, Answer):
        return RedirectResponse(place_of(name, "history"), 303)
    if wish.run is not None:
        return RedirectResponse(f"{place_of(name, 'ask', 'runs', wish.run)}?answer={found.call}", 303)
    return RedirectResponse(f"{place_of(name, 'ask')}?answer={found.call}", 303)
