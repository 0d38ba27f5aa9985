"""Sends every import within `src` to the module that has the name: python tools/move/direct.py ROOT"""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.setrecursionlimit(100000)
from moving import House, Spec, apply_edits

House.direct = True
root = Path(sys.argv[1]).resolve()
house = House(root, Spec(), others=())
touched = []
for name, module in house.modules.items():
    if name == "chary":
        continue
    text = apply_edits(module, house.rewritten(module, name))
    if text != module.source:
        module.path.write_text(text)
        touched.append(str(module.path))
ruff = "/work/main/.venv/bin/ruff"
subprocess.run([ruff, "check", "--fix", "--quiet", "--select", "I", *touched], cwd=root)
subprocess.run([ruff, "format", "--quiet", *touched], cwd=root)
print(house.notes, len(touched))
