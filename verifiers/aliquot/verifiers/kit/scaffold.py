"""A new plugin: a package of one file that passes its own tests, to be changed into what its author wants."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from pathlib import Path

from aliquot.domain import ConfigError
from aliquot.verifiers.store import NAME

TEMPLATE = {
    "pyproject.toml": "pyproject.toml.template",
    "README.md": "README.md.template",
    "{module}.py": "plugin.py.template",
    "tests/test_{module}.py": "test_plugin.py.template",
}
"""Files of a new package, and what they are made of."""


def new_verifier(name: str, folder: Path) -> list[Path]:
    """Write the package of a new verifier into a folder that is not there or empty; the files, in order.

    Raises:
        ConfigError: the name cannot be one, or something is in the folder.
    """
    module = re.sub(r"[-.]", "_", name)
    if not NAME.fullmatch(name) or not module.isidentifier() or keyword.iskeyword(module):
        remedy = "a name has small letters, digits, - and _, and begins with a letter, e.g. logp or my-docking"
        raise ConfigError("aliquot plugin new", [("NAME", name, remedy)])
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError("aliquot plugin new", [("--out", str(folder), "there is something in it; choose another")])
    words = {"NAME": name, "MODULE": module, "CLASS": "".join(part.title() for part in module.split("_"))}
    written = []
    for place, template in TEMPLATE.items():
        text = (files("aliquot.verifiers.kit") / "templates" / template).read_text(encoding="utf-8")
        path = folder / place.format(module=module)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(re.sub(r"@(NAME|MODULE|CLASS)@", lambda found: words[found[1]], text), encoding="utf-8")
        written.append(path)
    return written
