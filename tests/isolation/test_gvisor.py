"""The tier behind gVisor: what it is told, and, where `runsc` is installed, what hostile plugins come to there."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from aliquot.domain import Outcome
from aliquot.isolation import doctor
from aliquot.isolation.containment import Containment, SandboxUnavailable
from aliquot.isolation.frames import Walls
from aliquot.isolation.gvisor import bundle, gvisor_launcher
from aliquot.isolation.launch import Limits
from aliquot.isolation.settings import Settings
from aliquot.isolation.view import view_of
from tests.isolation.attacks import attack, contained, failed

here = pytest.mark.skipif(
    shutil.which("runsc") is None or os.geteuid() != 0, reason="an optional tier: runsc is not installed, or not root"
)


def test_the_bundle_shows_the_same_files_and_keeps_no_privilege(plugin):
    view = view_of(Containment(), plugin)
    said = bundle(view, Limits(scratch_mb=32), 60999)
    process = said["process"]
    assert process["user"] == {"uid": 60999, "gid": 60999} and process["noNewPrivileges"]
    assert {*map(tuple, process["capabilities"].values())} == {()}
    assert process["args"][0] == sys.executable and "PATH=" in process["env"][0]
    assert said["root"]["readonly"] and {n["type"] for n in said["linux"]["namespaces"]} >= {"network", "pid", "mount"}
    binds = {m["destination"]: m for m in said["mounts"] if m["type"] == "bind"}
    assert {*binds} == {*view.readable} and all("ro" in mount["options"] for mount in binds.values())
    (scratch,) = [m for m in said["mounts"] if m["destination"] == "/tmp"]
    assert f"size={32 * 2**20}" in scratch["options"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gets as far as a launch")
def test_the_command_gives_no_network_and_takes_the_chosen_platform(plugin, tmp_path):
    settings = Settings(tier="runsc", program="/usr/bin/true", platform="ptrace", uids=range(60990, 61000))
    launch = gvisor_launcher(Containment(), plugin, Limits(), settings)(9)
    try:
        command = launch.argv[launch.argv.index("/usr/bin/true") :]
        assert {"--network=none", "--platform=ptrace", "run"} <= {*command}
        assert launch.replies_on_output and launch.uid in range(60990, 61000) and isinstance(launch.walls, Walls)
        assert "aliquot" not in str(launch.environment)
    finally:
        launch.held.close()


@pytest.mark.parametrize("containment", [Containment(network=("example.com",)), Containment(gpu=True)])
def test_what_the_tier_has_not_is_refused(plugin, containment):
    with pytest.raises(SandboxUnavailable):
        gvisor_launcher(containment, plugin, Limits(), Settings(tier="runsc", program="/usr/bin/true"))(9)


@pytest.fixture
def gvisor(monkeypatch):
    monkeypatch.setenv("ALIQUOT_SANDBOX", "runsc")
    monkeypatch.setenv("ALIQUOT_SANDBOX_PLATFORM", "ptrace")  # works everywhere, if slowly


@here
def test_the_doctor_proves_the_tier(gvisor):
    examination = doctor.examine(fresh=True)
    assert examination.sufficient, examination.reasons
    assert {"own_kernel", "killed_whole", "memory_capped"} <= {c.name for c in examination.controls if c.held}


@here
def test_hostile_plugins_are_held_by_gvisor_too(gvisor, plugin):
    service = contained(plugin)
    said = attack(service, "read_files", ["/etc/passwd", "/etc/shadow", "/root/.ssh", "/var/log", __file__])
    assert {*said.values()} == {"ENOENT"}
    assert attack(service, "others_in_sight") == [1]
    assert attack(service, "fill", "/tmp") == [64 * 2**20, "ENOSPC"]
    assert attack(service, "fork_bomb", seconds=60)[1] == "EAGAIN"
    assert attack(service, "reach", ["127.0.0.1", 22])["name"] != "done"
    assert attack(service, "flood", 1, seconds=120) == "done"
    assert "gvisor" in service.controls and service.starts == 1
    failure = failed(service, "spin", seconds=3)
    assert failure.outcome is Outcome.TIMED_OUT and service.starts == 2
    service.close()
