"""The Makefile and the script of CI: what they call, and what they say on a machine that is not fit."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = ["make", "--no-print-directory", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture
def bare(project, tmp_path) -> Path:
    """A checkout in which nothing was set up."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(project / name, tmp_path)
    return tmp_path


def test_test_checks_style_and_types_before_it_runs_the_tests(bare):
    said = make(bare, "-n", "test").stdout
    steps = ("-m venv", "-e '.[dev]'", "ruff check", "ruff format --check", "mypy", "pytest")
    order = [said.index(step) for step in steps]
    assert order == sorted(order)
    assert "ruff check" in make(bare, "-n", "lint").stdout


def test_arguments_reach_the_commands(bare):
    assert "-m benchmarks learning --json" in make(bare, "-n", "bench", "ARGS=learning --json").stdout
    assert "aliquot run examples/campaigns/druglike.yaml --quiet" in make(bare, "-n", "run", "ARGS=--quiet").stdout
    assert "aliquot serve --port 0" in make(bare, "-n", "serve", "ARGS=--port 0").stdout


def test_nothing_is_set_up_twice_until_the_requirements_change(bare):
    (bare / ".venv").mkdir()
    (bare / ".venv/installed").touch()
    assert "pip install" not in make(bare, "-n", "setup").stdout
    os.utime(bare / "pyproject.toml", (4e9, 4e9))
    assert "pip install" in make(bare, "-n", "setup").stdout


def test_an_old_python_is_refused_in_words(bare):
    program = bare / "python"
    program.write_text('#!/bin/sh\n[ "$1" = -V ] && echo Python 3.9.2 && exit\nexit 1\n')
    program.chmod(0o755)
    done = make(bare, "setup", f"PYTHON={program}")
    assert done.returncode != 0 and f"needs Python 3.11 or newer; {program} is Python 3.9.2." in done.stdout
    none = make(bare, "setup", "PYTHON=")
    assert none.returncode != 0 and "none was found" in none.stdout
    assert not (bare / ".venv").exists()


def test_a_python_without_venv_is_refused_in_words(bare):
    program = bare / "python"
    program.write_text('#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\n')
    program.chmod(0o755)
    done = make(bare, "setup", f"PYTHON={program}")
    assert done.returncode != 0 and "apt install python3-venv" in done.stdout


def test_a_setup_that_fails_shows_why_and_is_not_taken_for_done(bare):
    program = bare / "python"
    pip = "#!/bin/sh\necho no route to the index\nexit 3\n"
    program.write_text(f"""#!/bin/sh
[ "$2" = venv ] && mkdir -p .venv/bin && printf '{pip}' > .venv/bin/python && chmod +x .venv/bin/python
exit 0
""")
    program.chmod(0o755)
    done = make(bare, "setup", f"PYTHON={program}")
    assert done.returncode != 0 and "no route to the index" in done.stdout
    assert not (bare / ".venv/installed").exists()


def test_ci_runs_the_tests_and_fails_with_them(project, tmp_path):
    script = project / ".ci/run"
    assert os.access(script, os.X_OK)
    (tmp_path / ".ci").mkdir()
    shutil.copy(script, tmp_path / ".ci")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bwrap", "chromium", "apt-get"):
        (programs / name).write_text(f"#!/bin/sh\necho {name} $*\n")
        (programs / name).chmod(0o755)
    (programs / "make").write_text("#!/bin/sh\necho make $*\nexit 7\n")
    (programs / "make").chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([tmp_path / ".ci/run"], env=environment, capture_output=True, text=True)
    assert done.returncode == 7
    assert done.stdout.splitlines()[-1] == "make test"
