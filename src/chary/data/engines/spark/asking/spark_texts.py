"""Values as texts by which units and elements are met again, whatever engine reads them."""

from chary.data.columns import Schema, TypeClass, classify

_WRITTEN = (TypeClass.BOOLEAN, TypeClass.INTEGER, TypeClass.STRING, TypeClass.DATE, TypeClass.TIMESTAMP)


def has_text(schema: Schema, column: str) -> bool:
    """Whether every value of a column has a text of its own that stays the same.

    Not so doubles: the last digit of some differs from one version of Java to another, and what is met again under
    another name would be counted twice.

    >>> has_text({"x": "float64"}, "x"), has_text({"id": "decimal(20,0)"}, "id")
    (False, True)
    """
    return classify(schema, column) in _WRITTEN or schema[column].startswith("decimal")


def text_of(value: str, kind: str) -> str:
    """SQL for the text of a value of that class: the one that the embedded engine writes, for years from 1 to 9999."""
    return value if kind == TypeClass.STRING else f"CAST({value} AS STRING)"
