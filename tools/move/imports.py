"""Imports every module of `src/chary`, each first in an interpreter of its own if `--alone`."""

import importlib
import subprocess
import sys
import traceback
from pathlib import Path

names = sorted(
    ".".join(p.relative_to("src").with_suffix("").parts).removesuffix(".__init__") for p in Path("src").rglob("*.py") if p.name != "__main__.py"
)
sys.path.insert(0, "src")
if "--alone" in sys.argv:
    for name in names:
        done = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, 'src'); import {name}"], capture_output=True, text=True)
        if done.returncode:
            print(name, done.stderr.strip().splitlines()[-1])
else:
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:
            print(name, "".join(traceback.format_exc().splitlines(keepends=True)[-3:]))
