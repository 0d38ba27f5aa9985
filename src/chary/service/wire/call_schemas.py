"""The bodies of calls as JSON schemas, made from their declarations: a new kind of call appears by itself."""

import inspect
from typing import Any, Final

from chary.calls.call import adapter
from chary.calls.run import Opening
from chary.service.serving.wishes import readable_kinds

_PLACE: Final = "#/components/schemas/{model}"


def call_schemas() -> dict[str, dict[str, Any]]:
    """A schema for each kind that JSON can say, by the name of its class, and those that they share."""
    found: dict[str, dict[str, Any]] = {}
    for name, kind in readable_kinds().items():
        schema = adapter(kind).json_schema(ref_template=_PLACE, mode="validation")
        found |= schema.pop("$defs", {})
        schema["properties"] = {"kind": {"const": name}} | schema.get("properties", {})
        schema["required"] = ["kind", *schema.get("required", [])]
        told = (inspect.getdoc(kind) or "").partition("\n\n")[0]
        found[kind.__name__] = schema | {"description": told, "additionalProperties": False}
    return found


def calls_schema(*, openings: bool) -> dict[str, Any]:
    """The schema of a body: one of the calls that open runs, or one of all others."""
    named = {name: kind for name, kind in readable_kinds().items() if issubclass(kind, Opening) == openings}
    places = {name: _PLACE.format(model=kind.__name__) for name, kind in named.items()}
    return {
        "oneOf": [{"$ref": place} for place in places.values()],
        "discriminator": {"propertyName": "kind", "mapping": places},
    }
