"""What is told when a call cannot be right."""

from pydantic import ValidationError

from chary.errors import CharyError, InvalidParameter

_SAID = {"missing": "is missing", "unexpected_keyword_argument": "is not known", "missing_argument": "is missing"}


def refusal(name: str, error: ValidationError) -> CharyError:
    """The first thing that is wrong: chary's own error where a check raised it, else which field it is about."""
    first = error.errors(include_url=False)[0]
    raised = first.get("ctx", {}).get("error")
    if isinstance(raised, CharyError):
        return raised
    where = ".".join(str(part) for part in first["loc"])
    return InvalidParameter(f"{name}: {where} {_SAID.get(first['type'], first['msg'].lower())}")
