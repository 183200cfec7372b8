"""The hostile plugins once more, held by the other recipe: as an ordinary user, without any privilege."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile

from tests.isolation.ordinary import UID, as_ordinary_user


def test_hostile_plugins_are_held_for_an_ordinary_user_too(project):
    if os.geteuid() != 0:
        return  # then `test_hostile` itself has just been run by one
    assert shutil.which("bwrap"), "bubblewrap is not installed: apt install bubblewrap"
    with tempfile.TemporaryDirectory(prefix="aliquot-ordinary-", ignore_cleanup_errors=True) as home:
        os.chown(home, UID, UID)
        options = ("-q", "-p", "no:cacheprovider", f"--basetemp={home}/tests")
        files = ("tests/isolation/test_hostile.py", "tests/isolation/test_network.py")
        command = as_ordinary_user(sys.executable, "-B", "-m", "pytest", *options, *files, needs=(str(project),))
        environment = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8"}
        run = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout[-12000:] + run.stderr[-2000:]
    assert "skipped" not in run.stdout
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed and int(passed[1]) > 50
