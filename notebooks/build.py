"""Run every notebook from its script and write the paired .ipynb: ``python notebooks/build.py``.

A script ``NN_name.py`` (jupytext's percent format) is the source; ``NN_name.ipynb`` is its product,
with outputs, so that they show on the web. Names as arguments build these alone, such as
``python notebooks/build.py 02_energy_landscapes``.
"""

from __future__ import annotations

import base64
import io
import os
import sys
import time
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from PIL import Image

FOLDER = Path(__file__).resolve().parent

SECONDS = 900
"""A cell that runs for longer is taken for one that hangs."""

# A kernel starts with this: a warning is a fault of the notebook, unless it is the kernel's own.
STRICT = (
    "import warnings; warnings.simplefilter('error'); "
    "warnings.filterwarnings('ignore', module='ipykernel|jupyter_client|tornado|zmq')"
)


def scripts() -> list[Path]:
    """The source of every notebook, in order."""
    return sorted(FOLDER.glob("[0-9][0-9]_*.py"))


def executed(script: Path, cwd: Path) -> nbformat.NotebookNode:
    """The notebook of a script with its outputs; warnings are errors.

    Args:
        script: the source.
        cwd: the folder that it runs in; it finds the modules beside it from anywhere.

    Raises:
        CellExecutionError: a cell failed.
    """
    notebook = jupytext.read(script, fmt="py:percent")
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(cwd)}},
        # Only errors of the kernel itself are shown: its remarks on sockets concern no notebook.
        extra_arguments=[f"--IPKernelApp.exec_lines={STRICT}", "--IPKernelApp.log_level=40"],
        # Clock times, or how a stream was cut, would make each build differ.
        record_timing=False,
        coalesce_streams=True,
    )
    path = os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")])
    # A backend of the shell's would leave the notebook without pictures.
    backend = "module://matplotlib_inline.backend_inline"
    ours = {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "MPLBACKEND": backend}
    client.execute(env={**os.environ, **ours})
    return notebook


def portable(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Without what says on which machine or when it ran: equal runs give equal files."""
    notebook.metadata = {
        "jupytext": {"formats": "ipynb,py:percent"},
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"file_extension": ".py", "name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"
        cell.metadata = {}
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = light(output.data["image/png"])
    return notebook


def light(png: str) -> str:
    """A picture in 256 colours: a third of the bytes, and to the eye the same."""
    small = io.BytesIO()
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return base64.b64encode(small.getvalue()).decode()


def build(script: Path) -> None:
    """Write the .ipynb of a script; an old one stays as it is where a cell fails."""
    start = time.perf_counter()
    notebook = portable(executed(script, FOLDER))
    target = script.with_suffix(".ipynb")
    nbformat.write(notebook, target)
    seconds, size = time.perf_counter() - start, target.stat().st_size
    print(f"{target.name}: {seconds:.0f} s, {size / 1000:.0f} kB")


def main(names: list[str]) -> int:
    """Build these notebooks, or all."""
    found = {script.stem: script for script in scripts()}
    if unknown := set(names) - set(found):
        print(f"got {', '.join(sorted(unknown))}, expected some of {', '.join(found)}.")
        return 2
    for name in names or found:
        build(found[name])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
