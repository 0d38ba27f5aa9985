"""What is told when a call cannot be right."""

from pydantic import ValidationError

from chary.errors import CharyError, InvalidParameter

_SAID = {"missing": "is missing", "unexpected_keyword_argument": "is not known", "missing_argument": "is missing"}


def refusal(name: str, error: ValidationError) -> CharyError:
    """The first thing that is wrong: chary's own error where a check raised it; `field` is which field it is about."""
    first = error.errors(include_url=False)[0]
    raised, where = first.get("ctx", {}).get("error"), ".".join(str(part) for part in first["loc"])
    told = f"{name}: {where} {_SAID.get(first['type'], first['msg'].lower())}"
    found = raised if isinstance(raised, CharyError) else InvalidParameter(told)
    found.field = where.partition(".")[0] or None
    return found
