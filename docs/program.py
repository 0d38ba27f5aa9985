"""Pages that the program writes itself when the site is built: public names, queries, commands, options and routes.

A page asks for one of them by a directive, such as `api` with the name of a package. What the directives write is
Markdown, as docstrings are. A name in code that is public leads to where it is described.
"""

import inspect
import re
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import typer
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.utils import new_document
from myst_parser.parsers.sphinx_ import MystParser
from pydantic import BaseModel
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

import chary
from chary.calls import kinds
from chary.calls.call import SUBJECTS, meaning
from chary.calls.run import Opening, run_of
from chary.cli.app import app as command
from chary.cli.commands import (
    EXPERT,
    BlockOptions,
    BudgetOptions,
    QueryOptions,
    SettingsOptions,
    SourceOptions,
    parameters_of,
)
from chary.config import DatasetOptions
from chary.service.app import application
from chary.service.config import Grant, Mail, OpenIdOptions, ServiceOptions, Webhook, configured
from chary.service.core.datasets import ServedDatasets
from chary.service.state import service_with
from chary.service.store import ServiceStore

API: Final = Path(__file__).parent / "reference" / "api"


# Public names.


@cache
def described() -> dict[str, str]:
    """Each public name with the package that describes it: the first whose page is in the index."""
    found: dict[str, str] = {}
    for page in re.findall(r"(?m)^\w+$", (API / "index.md").read_text()):
        package = re.findall(r"{api} (\S+)", (API / f"{page}.md").read_text())[0]
        for name in import_module(package).__all__:
            found.setdefault(name, package)
    return found


def api(package: str) -> str:
    """All names of a package: what each is in a line, and then its docstring."""
    names = [name for name, home in described().items() if home == package]
    of = {name: import_module(package) for name in names}
    if package == "chary.calls":
        groups = {title: [kind.__name__ for kind in _kinds_of(subject)] for subject, title in SUBJECTS.items()}
        known = {name for group in groups.values() for name in group}
        groups["Answers, and what calls share"] = [name for name in names if name not in known]
    elif package == "chary":
        errors = [name for name in names if _is_error(getattr(chary, name))]
        groups = {"Sessions and queries": [name for name in names if name not in errors], "Errors": errors}
    else:
        groups = {"": names}
    parts: list[str] = []
    for title, group in groups.items():
        parts += [f"## {title}"] * bool(title)
        parts.append(table(["name", "meaning"], ([f"`{name}`", first(getattr(of[name], name))] for name in group)))
        parts += [_entry(package, name, getattr(of[name], name)) for name in group]
    return "\n\n".join(parts)


def _entry(package: str, name: str, thing: Any) -> str:
    kind = "class" if inspect.isclass(thing) else "function" if inspect.isroutine(thing) else "data"
    kind = "exception" if kind == "class" and issubclass(thing, Exception) else kind
    members = kind == "class" and thing not in kinds().values()
    lines = [f".. auto{kind}:: {package}.{name}"] + ["   :members:", "   :inherited-members:"] * members
    return "\n".join(["```{eval-rst}", *lines, "```"])


def _is_error(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, chary.CharyError)


def _kinds_of(subject: str) -> list[Any]:
    return sorted((kind for kind in kinds().values() if kind.subject == subject), key=lambda kind: kind.__name__)


def first(thing: Any) -> str:
    """The first sentence of a docstring."""
    text = " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[.:;]) ", text)[0].rstrip(".:;") + "." * bool(text)


def markdown(docstring: str) -> str:
    """A docstring as a page has it: its examples are code, and the pages that it names are links."""
    text = re.sub(r"\bdocs/([\w/]+)\.md\b", r"[\1](/\1.md)", docstring)
    return re.sub(r"(?m)^>>> (?:.+\n?)+", lambda found: f"\n```pycon\n{found[0].rstrip()}\n```\n", text)


def in_markdown(_app: Sphinx, _what: str, _name: str, thing: Any, _options: Any, lines: list[str]) -> None:
    """A docstring for autodoc, and that of the run which a call opens."""
    text = markdown("\n".join(lines))
    if inspect.isclass(thing) and thing in kinds().values():
        text = f"Kind `{thing.kind}`. {text}"
        if issubclass(thing, Opening):
            text += f"\n\n{markdown(inspect.getdoc(run_of(thing.kind)) or '')}"
    lines[:] = [".. markdown::", "", *(f"   {line}" for line in text.splitlines()), ""]


def not_ours(_app: Sphinx, _what: str, _name: str, member: Any, skipped: bool, _options: Any) -> bool | None:
    """Members that a class has from other libraries are described there."""
    home = getattr(getattr(member, "fget", member), "__module__", None) or ""
    return None if skipped or home.startswith("chary") else True


class Markdown(Directive):
    """Markdown within what autodoc writes."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        document = new_document("docstring", settings=self.state.document.settings)
        MystParser().parse("\n".join(self.content), document)
        return document.children


class Code(SphinxTransform):
    """Names in code that are public lead to where they are described; no example ends with an empty line."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        """In one page."""
        for block in self.document.findall(nodes.literal_block):
            if block.rawsource == block.astext():
                block.rawsource = block.astext().rstrip("\n")
                block.clear()
                block += nodes.Text(block.rawsource)
        for code in list(self.document.findall(nodes.literal)):
            target = _target(code.astext())
            if target and not isinstance(code.parent, (nodes.reference, pending_xref, nodes.title)):
                link = pending_xref("", refdomain="py", reftype="obj", reftarget=target, refexplicit=True)
                code.replace_self(link)
                link += code


def _target(text: str) -> str | None:
    name, _, member = text.removeprefix("chary.").partition(".")
    if name == "session" and hasattr(chary.Session, member):
        return f"chary.Session.{member}"
    if name not in described() or (member and not hasattr(getattr(import_module(described()[name]), name), member)):
        return None
    # A word such as `count` may be an option or a column as well.
    if name.islower() and "_" not in name and not text.startswith("chary."):
        return None
    return f"{described()[name]}.{name}" + f".{member}" * bool(member)


# Tables.


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """A table in Markdown, empty for no rows."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines]) if lines else ""


# The command.


def commands() -> str:
    """Every command with its options; those that many share are listed once, by panel."""
    found = dict(_commands(typer.main.get_command(command), "chary"))
    panels: dict[str, dict[str, Any]] = {}
    for each in found.values():
        for option in each.params:
            if panel := _shared(option):
                panels.setdefault(panel, {}).setdefault(option.name, option)
    parts = ["## Options that commands share"]
    for panel, options in panels.items():
        parts += [f"### {panel}", _options(options.values())]
    parts.append("## Commands")
    for name, each in found.items():
        kind = name.removeprefix("chary ask ").removeprefix("chary quote ")
        if name != f"chary ask {kind}" and f"chary ask {kind}" in found:
            continue
        more = [f"Shorter: `chary {kind}`."] * (f"chary {kind}" in found.keys() - {name})
        more += [f"Its cost: `chary quote {kind}`."] * name.startswith("chary ask ")
        shared = sorted({panel for option in each.params if (panel := _shared(option))})
        own = [option for option in each.params if not _shared(option)]
        parts += [f"### `{name}`", each.help or "", " ".join(more), _options(own)]
        parts.append(f"Shared options: {', '.join(shared)}." if shared else "")
    return "\n\n".join(filter(None, parts))


def _shared(option: Any) -> str:
    """The panel of an option that many commands have; what experts say of one command is its own."""
    panel = str(getattr(option, "rich_help_panel", None) or "")
    return "" if panel == EXPERT and option.help not in _SHARED else panel


_GROUPS = (SourceOptions, BlockOptions, BudgetOptions, QueryOptions, SettingsOptions)
_SHARED = {each.annotation.__metadata__[0].help for group in _GROUPS for each in parameters_of(group)}


def _commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from _commands(each, f"{path} {name}")
        elif not each.hidden:
            yield f"{path} {name}", each


def _options(options: Iterable[Any]) -> str:
    rows = []
    for option in options:
        names = [*option.opts, *option.secondary_opts] if option.param_type_name == "option" else [option.name.upper()]
        usual = option.default if isinstance(option.default, (str, int, float)) and option.default is not False else ""
        said = "required" if option.required else f"`{usual}`" if usual != "" else ""
        rows.append([", ".join(f"`{name}`" for name in names), said, option.help or ""])
    return table(["option", "default", "meaning"], rows)


# A chary.toml and the service.


def options() -> str:
    """The options of a chary.toml; what they say is what the same options of commands say."""
    said = {
        option.name: option.help
        for _, each in _commands(typer.main.get_command(command), "chary")
        for option in each.params
        if _shared(option)
    }
    parts = []
    models: dict[str, type[BaseModel]] = {
        "[dataset.NAME]": DatasetOptions,
        "[service]": ServiceOptions,
        "[service.webhook.NAME]": Webhook,
        "[service.mail.NAME]": Mail,
        "[service.openid]": OpenIdOptions,
        "[[service.openid.grant]]": Grant,
    }
    for head, model in models.items():
        schema = model.model_json_schema(by_alias=True)
        rows = []
        for name, field in model.model_fields.items():
            key = field.alias or name.replace("_", "-")
            shape = schema["properties"][key]
            usual = "required" if field.is_required() else _usual(shape.get("default"))
            rows.append([f"`{key}`", _shape(shape), usual, field.description or said.get(name) or ""])
        parts += [
            f"## `{head}`",
            markdown(inspect.getdoc(model) or ""),
            table(["option", "type", "default", "meaning"], rows),
        ]
    return "\n\n".join(parts)


def _usual(value: Any) -> str:
    return "" if value in (None, {}, []) else f"`{str(value).lower() if isinstance(value, bool) else value}`"


_TYPES: Final = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "null": "nothing",
}


def _shape(shape: dict[str, Any]) -> str:
    """The type of a value in a JSON schema, in words."""
    if "enum" in shape:
        return " or ".join(f"`{each}`" for each in shape["enum"])
    if "anyOf" in shape:
        return " or ".join(dict.fromkeys(_shape(each) for each in shape["anyOf"] if each.get("type") != "null"))
    types = shape.get("type", "object")
    kind = " or ".join(_TYPES.get(each, "table") for each in ([types] if isinstance(types, str) else types))
    least, most = shape.get("minimum", shape.get("exclusiveMinimum")), shape.get("maximum")
    bounds = [f"{word} {bound:,}" for word, bound in (("from", least), ("to", most)) if bound not in (None, 2**53)]
    return " ".join([kind, *bounds])


def routes() -> str:
    """The routes of the service, by subject, from its OpenAPI document."""
    with tempfile.TemporaryDirectory() as folder:
        config = configured({"folder": Path(folder), "service": {}, "dataset": {}}, "the site")
        service = service_with(config, ServiceStore(Path(folder) / "service.db"), ServedDatasets({}))
        document = application(service).openapi()
        service.jobs.close(1)
        service.store.close()
    subjects: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            subjects.setdefault(operation["tags"][0], []).append(_route(method, path, operation))
    parts = [f"## {subject.capitalize()}\n\n" + "\n\n".join(of) for subject, of in subjects.items()]
    return "\n\n".join([*parts, "## Bodies of calls", *map(_body, document["components"]["schemas"].values())])


def _route(method: str, path: str, operation: dict[str, Any]) -> str:
    rows = [
        [f"`{each['name']}`", each["in"], _shape(each["schema"]), each.get("description", "")]
        for each in operation.get("parameters", ())
        if each["in"] != "path"
    ]
    parts = [f"### `{method.upper()} {path}`", markdown(operation["description"])]
    return "\n\n".join(filter(None, [*parts, table(["parameter", "in", "type", "meaning"], rows)]))


def _body(schema: dict[str, Any]) -> str:
    kind = schema.get("properties", {}).get("kind", {}).get("const")
    if kind is None:
        return ""
    rows = [
        [f"`{name}`", _shape(shape), "required" if name in schema["required"] else "", meaning(kind, name)]
        for name, shape in schema["properties"].items()
        if name not in ("kind", "blocks")
    ]
    return f"### `{kind}`\n\n{schema['description']}\n\n" + table(["field", "type", "", "meaning"], rows)


WRITERS: Final = {"api": api, "commands": commands, "options": options, "routes": routes}


class Written(SphinxDirective):
    """What one of the writers writes."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(WRITERS[self.name](*self.arguments), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the directives known."""
    for name in WRITERS:
        app.add_directive(name, Written)
    app.add_directive("markdown", Markdown)
    app.add_transform(Code)
    app.connect("autodoc-process-docstring", in_markdown)
    app.connect("autodoc-skip-member", not_ours)
    return {"parallel_read_safe": True}
