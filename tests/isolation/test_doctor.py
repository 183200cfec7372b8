"""The doctor finds every wall that is missing, and then nothing of a stranger's runs."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap

import pytest
from typer.testing import CliRunner

from aliquot.cli import app
from aliquot.isolation import cgroups, doctor
from aliquot.isolation.containment import SandboxUnavailable
from aliquot.isolation.host import Service
from aliquot.isolation.proving import missing_controls
from aliquot.isolation.settings import Settings, read_settings
from tests.isolation.attacks import LIMITS, contained


@pytest.fixture
def instead_of_bubblewrap(tmp_path, monkeypatch):
    """Puts a program in bubblewrap's place; `arguments` is what it was given, `bubblewrap` the real one."""

    def put(source: str) -> None:
        path = tmp_path / "bwrap"
        head = (
            f"#!{sys.executable} -IS\nimport os, sys\narguments, bubblewrap = sys.argv[1:], {shutil.which('bwrap')!r}\n"
        )
        path.write_text(head + textwrap.dedent(source))
        path.chmod(0o755)
        monkeypatch.setenv("ALIQUOT_SANDBOX_PROGRAM", str(path))

    return put


def without(*dropped: str) -> str:
    return f"""
        for name in {dropped!r}:
            while name in arguments:
                at = arguments.index(name)
                del arguments[at : at + (2 if name in ("--size", "--seccomp") else 1)]
        os.execv(bubblewrap, [bubblewrap, *arguments])
    """


def refused(plugin: str) -> str:
    """Why a stranger's code is refused; that it runs fails the test."""
    service = contained(plugin)
    with pytest.raises(SandboxUnavailable) as refusal:
        service.call("identity", [1], seconds=20)
    assert service.starts == 0 and service.failure is None and refusal.value.reasons
    return str(refusal.value)


def test_every_control_is_held_here():
    examination = doctor.examine(fresh=True)
    assert examination.sufficient, examination.reasons
    open_ones = {control.name for control in examination.controls if not control.held}
    assert open_ones <= {*examination.waived}
    wanted = {*doctor.TRIED} - {"start", "own_kernel", "control_group"}
    assert wanted <= {control.name for control in examination.controls}


def test_an_examination_is_kept_for_a_while():
    assert doctor.examine() is doctor.examine()


def test_without_bubblewrap_nothing_of_a_stranger_runs(plugin, monkeypatch):
    monkeypatch.setenv("ALIQUOT_SANDBOX_PROGRAM", "/nowhere/bwrap")
    assert "apt install bubblewrap" in refused(plugin)
    trusted = Service("ours", plugin, None, limits=LIMITS)
    assert trusted.call("identity", [1], seconds=20) == [1]
    trusted.close()


def test_where_namespaces_are_refused_the_remedy_is_said(plugin, instead_of_bubblewrap):
    instead_of_bubblewrap("sys.exit('bwrap: setting up uid map: Permission denied')")
    said = refused(plugin)
    assert "setting up uid map: Permission denied" in said and "apparmor" in said


@pytest.mark.parametrize(
    ("source", "controls"),
    [
        (without("--unshare-net"), {"namespaces", "no_network"}),
        (without("--seccomp"), {"seccomp", "system_calls_refused"}),
        (without("--size"), {"scratch_capped"}),
        (without("--unshare-ipc"), {"namespaces"}),
        (without("--unshare-pid"), {"start"}),
        ("os.environ.update(LEFT='x'); os.execv('/bin/true', ['true'])", {"start"}),
    ],
)
def test_a_missing_wall_is_found(plugin, instead_of_bubblewrap, source, controls):
    instead_of_bubblewrap(source)
    examination = doctor.examine(fresh=True)
    assert not examination.sufficient
    assert controls <= {control.name for control in examination.controls if not control.held}, examination.controls
    assert refused(plugin)


def test_root_never_stays_root(plugin, instead_of_bubblewrap):
    if os.geteuid() != 0:
        return  # for an ordinary user bubblewrap makes the user namespace whether it is asked or not
    instead_of_bubblewrap("""
        at = arguments.index("setpriv")
        del arguments[at : arguments.index("--", at) + 1]
        os.execv(bubblewrap, [bubblewrap, *arguments])
    """)
    assert not doctor.examine(fresh=True).sufficient
    assert refused(plugin)


def test_without_a_control_group_the_operator_must_accept_the_watchdog(plugin, monkeypatch):
    monkeypatch.setattr(cgroups, "find_places", lambda delegated=(): [])
    monkeypatch.delenv("ALIQUOT_SANDBOX_WITHOUT", raising=False)
    doctor._kept.clear()
    assert "memory_group" in refused(plugin)
    monkeypatch.setenv("ALIQUOT_SANDBOX_WITHOUT", "memory")
    service = contained(plugin)
    assert service.call("identity", [1], seconds=20) == [1]
    assert "watchdog_memory" in service.controls and "cgroup_memory" not in service.controls
    service.close()
    doctor._kept.clear()


def test_a_worker_without_a_second_wall_is_not_admitted_unless_it_was_waived():
    held = {"no_new_privileges", "no_capabilities", "seccomp", "namespaces", "no_network", "unprivileged_user",
            "rlimit_nproc", "rlimit_nofile", "rlimit_fsize", "rlimit_core", "rlimit_as"}  # fmt: skip
    assert missing_controls(held, Settings()) == ["landlock", "memory"]
    assert missing_controls({*held, "landlock_7", "cgroup_memory"}, Settings()) == []
    assert missing_controls({*held, "watchdog_memory"}, Settings(without=("memory", "landlock"))) == []
    assert missing_controls(held - {"seccomp"} | {"landlock_1", "cgroup_memory"}, Settings()) == ["seccomp"]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("ALIQUOT_SANDBOX", "chroot", "use one of"),
        ("ALIQUOT_SANDBOX_WITHOUT", "seccomp", "only memory, landlock"),
        ("ALIQUOT_SANDBOX_UIDS", "0-10", "both above 0"),
        ("ALIQUOT_SANDBOX_UIDS", "many", "first-last"),
        ("ALIQUOT_SANDBOX_PRIVATE", "10.0.0.1/8", "host bits"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_in_words(plugin, monkeypatch, name, value, says):
    monkeypatch.setenv(name, value)
    with pytest.raises(SandboxUnavailable, match=says):
        read_settings()
    assert name in refused(plugin)


def test_the_command_says_what_was_tried_and_fails_when_it_must(monkeypatch):
    good = CliRunner().invoke(app, ["sandbox", "doctor", "--json"])
    said = json.loads(good.output)
    assert good.exit_code == 0 and said["sufficient"] and len(said["controls"]) > 15
    monkeypatch.setenv("ALIQUOT_SANDBOX_PROGRAM", "/nowhere/bwrap")
    bad = CliRunner().invoke(app, ["sandbox", "doctor"])
    assert bad.exit_code == 1 and "Untrusted plugins are refused" in bad.output and "bubblewrap" in bad.output
