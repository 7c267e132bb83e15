#!/usr/bin/env python3
"""Runs the notebooks anew and keeps their outputs: scripts/run_notebooks.py [--db DATABASE] [NOTEBOOK ...]

Without --db they read the summary that comes with opscanner. Nothing of when or where they ran is kept, so that a run
on the same data changes nothing. Needs the extra `notebooks`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import nbclient
import nbformat

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"


def run(path: Path) -> None:
    """Executes one notebook in its folder; its file changes only when every cell ran."""
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook,
        timeout=1800,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", type=Path, metavar="NOTEBOOK", default=sorted(FOLDER.glob("*.ipynb")))
    parser.add_argument("--db", default="summary", help="database to read  [default: %(default)s]")
    options = parser.parse_args()
    os.environ["OPSCANNER_DB"] = options.db if options.db == "summary" else str(Path(options.db).absolute())
    for path in options.notebooks:
        run(path)
        print(f"{path.name}: {path.stat().st_size // 1000} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
