"""The footprint of Foveal before it does anything: the CPU of `import foveal`, and the size of a base install.

The import is timed in fresh interpreters with compiled files, less the same interpreter without the import, interleaved. Twice:
in an environment that holds the base install alone, and in the one that this script runs in, where other packages may be
imported along (msgspec imports typing_extensions wherever it is installed).
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RUNS = 20
_CLOCK = "import time; print(time.process_time())"


def import_cpu_ms(python: Path, runs: int = RUNS) -> dict[str, float]:
    """CPU of the import in milliseconds, over that of the bare interpreter."""
    bare, full = [], []
    _cpu(python, "import foveal")  # compiles all modules
    for _ in range(runs):
        bare.append(_cpu(python, ""))
        full.append(_cpu(python, "import foveal"))
    net = statistics.median(full) - statistics.median(bare)
    return {"bare_ms": statistics.median(bare), "import_ms": net, "least_ms": min(full) - min(bare), "runs": runs}


def _cpu(python: Path, statement: str) -> float:
    code = f"{statement}\n{_CLOCK}"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, env=_compiling())
    return float(done.stdout) * 1e3


def _compiling() -> dict[str, str]:
    """The environment, with compiled files kept (elsewhere, so that nothing is left behind), whatever was set before."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "foveal-pycache")}


def slowest_imports(python: Path, most: int = 8) -> list[dict[str, Any]]:
    """The modules that take longest by themselves, in one run, in milliseconds."""
    command = [python, "-X", "importtime", "-c", "import foveal"]
    report = subprocess.run(command, capture_output=True, text=True, check=True, env=_compiling()).stderr
    rows: list[tuple[int, str]] = []
    for line in report.splitlines()[1:]:
        own, _, name = line.removeprefix("import time:").split("|")
        rows.append((int(own), name.strip()))
    return [{"module": name, "own_ms": own / 1e3} for own, name in sorted(rows, reverse=True)[:most]]


def install(folder: Path) -> Path:
    """Return the interpreter of a fresh environment with Foveal and its dependencies."""
    python = folder / "env" / "bin" / "python"
    if shutil.which("uv"):
        subprocess.run(["uv", "venv", "-q", "--python", sys.executable, folder / "env"], check=True)
        subprocess.run(["uv", "pip", "install", "-q", "--compile-bytecode", "--python", python, ROOT], check=True)
    else:
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", ROOT], check=True)
    return python


def installed(python: Path) -> dict[str, float]:
    """Apparent size in MB of everything in the environment that an installer put there, by package."""
    (packages,) = (python.parent.parent / "lib").glob("python*/site-packages")
    sizes: dict[str, float] = {}
    for path in packages.rglob("*"):
        name = path.relative_to(packages).parts[0].partition("-")[0].partition(".")[0]
        if path.is_file() and name not in ("pip", "setuptools", "_virtualenv", "_distutils_hack"):
            sizes[name] = sizes.get(name, 0.0) + path.stat().st_size / 1e6
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        python = install(Path(name))
        sizes = installed(python)
        return {
            "base_import": import_cpu_ms(python),
            "slowest": slowest_imports(python),
            "here_import": import_cpu_ms(Path(sys.executable)),
            "installed_mb": sum(sizes.values()),
            "packages_mb": {package: size for package, size in sizes.items() if size > 0.05},
        }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
