"""Problem details: errors in terms of JSON fields for routes, and of form labels for pages."""

from typing import Any, Final

from chary.calls.language import OF_A_RUN, QUERIES, Called, Language, Said, as_json, listed, spoken
from chary.client import problems

_LIMITS: Final = ("max_groups_per_unit", "assumed_groups_per_unit")


class Fields(Language):
    """Fields of a JSON body, such as `"hits": 20`.

    >>> spoken("give tests= as well, such as tests=100, or epsilon=", FIELDS)
    'give "tests" as well, such as "tests": 100, or "epsilon"'
    >>> spoken('ask count().by("clinic", ["a", "b"])', FIELDS)
    'ask {"kind": "count", "by": {"columns": ["clinic"], "keys": [["a"], ["b"]]}}'
    >>> spoken("another is opened by session.start(SparseVector(above=..., hits=3))", FIELDS)
    'another is opened by {"kind": "sparse_vector", "above": ..., "hits": 3}'
    >>> spoken("the condition \\"hits='3'\\" has no column", FIELDS)
    'the condition "hits=\\'3\\'" has no column'
    """

    row_level = '"row_level": true'

    def _field(self, said: Said) -> str:
        """A field, such as `"hits"` or `"hits": 20`."""
        return f'"{said.name}": {self._value(said)}' if said.text else f'"{said.name}"'

    def _call(self, called: Called) -> str | None:
        """The body of a query or a call; a run is replaced by its number."""
        if called.name in OF_A_RUN:
            return self._body(called.arguments) if called.arguments else None
        match called.name:
            case "session.quote":
                return "a quote"
            case "session.resume":
                return f"run {called.arguments[0].text}" if called.arguments else "the run"
            case "session.blocks":
                return f'"blocks": {self._body(called.arguments) if called.arguments else "{...}"}'
            case "by":
                return f'"by": {self._by({each.name: each for each in called.arguments})}'
        if called.plain in QUERIES:
            return self._query(called)
        known = called.linear or called.brought
        return known or (None if called.kind is None else self._body(called.arguments, called.kind.kind))

    def _value(self, said: Said) -> str:
        if isinstance(said.value, Called):
            return self.call(said.value) or said.text
        numeric = isinstance(said.value, (int, float)) and not isinstance(said.value, bool)
        return said.text if numeric or said.value is ... else as_json(said.value)

    def _body(self, arguments: tuple[Said, ...], kind: str | None = None) -> str:
        parts = [] if kind is None else [f'"kind": "{kind}"']
        parts += [f'"{each.name}": ...' if each.open else self.field(each) for each in arguments]
        return f"{{{', '.join(parts)}}}"

    def _query(self, called: Called) -> str:
        said = {each.name: each for each in called.arguments}
        by: dict[str, Said] = {name: said.pop(name) for name in ("by", "keys", *_LIMITS) if name in said}
        body = self._body(tuple(said.values()), called.plain)
        return f'{body[:-1]}, "by": {self._by(by)}}}' if "by" in by else body

    def _by(self, said: dict[str, Said]) -> str:
        if "by" not in said:
            return "{...}"
        keys = said.get("keys")
        rows = "[...]" if keys is None or keys.open else as_json([listed(each) for each in listed(keys.value)])
        limits = "".join(f", {self.field(said[name])}" for name in _LIMITS if name in said)
        return f'{{"columns": {as_json(listed(said["by"].value))}, "keys": {rows}{limits}}}'


class Settings(Fields):
    """Options of a chary.toml, such as `columns = {age = "BIGINT"}`.

    >>> spoken("columns={'age': 'BIGINT', 'day': 'DATE'}, or columns={}; budget=chary.Budget(epsilon=1)", Settings())
    'columns = {age = "BIGINT", day = "DATE"}, or columns = {}; budget-epsilon = 1'
    """

    row_level = "row-level = true"

    def _field(self, said: Said) -> str:
        name = {"privacy_unit": "unit", "csv": "csv-format"}.get(said.name, said.name.replace("_", "-"))
        if isinstance(said.value, Called):
            return self.call(said.value) or f"{name} = {said.text}"
        if isinstance(said.value, dict):
            parts = ", ".join(f"{key} = {as_json(value)}" for key, value in said.value.items())
            return f"{name} = {{{parts}}}"
        return f"{name} = {self._value(said)}" if said.text else name

    def _call(self, called: Called) -> str | None:
        if called.plain == "Budget":
            return ", ".join(f"budget-{each.name} = {each.text}" for each in called.arguments)
        return super()._call(called)


class Labels(Language):
    """Labels of a form, such as `hits 20`.

    >>> spoken("give tests= as well, such as tests=100; leave max_groups_per_unit= out", LABELS)
    'give tests as well, such as tests 100; leave max groups per unit out'
    >>> spoken('another is opened by session.start(SparseVector(above=..., hits=3, values=True))', LABELS)
    'another is opened by Sparse vector (above, hits 3, values switched on)'
    >>> spoken('ask count("age >= 65").by("clinic", ["a", "b"])', LABELS)
    'ask count (where age >= 65, by clinic, keys a, b)'
    """

    row_level = "rows that are units"

    def _field(self, said: Said) -> str:
        """A label, and the value that is filled in there."""
        label = self.name(said.name)
        if isinstance(said.value, bool):
            return f"{label} switched {'on' if said.value else 'off'}"
        if isinstance(said.value, Called):
            return f"{label} {self.call(said.value) or ''}".rstrip()
        return label if said.open or said.value is ... else f"{label} {', '.join(map(str, listed(said.value)))}"

    def _call(self, called: Called) -> str | None:
        """A query or a kind of call by its name, and how the form is filled in."""
        if called.name in (*OF_A_RUN, "by"):
            return ", ".join(map(self.field, called.arguments)) or None
        match called.name:
            case "session.quote":
                return "the comparison"
            case "session.resume":
                return f"run {called.arguments[0].text}" if called.arguments else "the run"
            case "session.blocks":
                return "blocks " + " to ".join(str(each.value) for each in called.arguments)
        if (known := called.linear or called.brought) is not None:
            return known
        if called.plain in QUERIES:
            name = called.plain
        elif called.kind is not None:
            name = called.kind.title
        else:
            return None
        return name + (f" ({', '.join(map(self.field, called.arguments))})" if called.arguments else "")

    def name(self, name: str) -> str:
        """A field by its label."""
        return name.replace("_", " ")


FIELDS: Final = Fields()
LABELS: Final = Labels()


def problem(error: Exception, language: Language = FIELDS) -> dict[str, Any]:
    """The problem details of an error; `python` is the detail as the library says it, where it is another.

    >>> from chary import InvalidInput
    >>> told = problem(InvalidInput("give tests=100"))
    >>> told["detail"], told["python"]
    ('give "tests": 100', 'give tests=100')
    """
    told = problems.problem(error)
    # Only who runs the service can do that, and does it so.
    told["detail"] = told["detail"].replace("open the ledger again", "restart the service")
    detail = spoken(told["detail"], language)
    return told if detail == told["detail"] else {**told, "detail": detail, "python": told["detail"]}
