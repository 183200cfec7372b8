"""What surrounds a contained worker: the thread that starts it, its user id, its groups, its files, its interpreter."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy
import pytest

from aliquot.isolation import cgroups, watchdog
from aliquot.isolation.containment import Containment, SandboxUnavailable
from aliquot.isolation.frames import ProtocolError, Reply, frame, weigh
from aliquot.isolation.host import Service
from aliquot.isolation.slots import take_slot
from aliquot.isolation.view import view_of
from aliquot.isolation.watchdog import children_of, descendants
from tests.isolation.attacks import attack, contained


def test_a_worker_outlives_the_thread_that_asked_for_it(plugin):
    service = contained(plugin)
    thread = threading.Thread(target=service.call, args=("identity", [1]), kwargs={"seconds": 20})
    thread.start()
    thread.join()
    time.sleep(0.3)
    assert service.call("identity", [2], seconds=20) == [2] and service.starts == 1
    service.close()


def test_a_forked_supervisor_starts_workers_of_its_own(plugin):
    contained(plugin).call("identity", [1], seconds=20)
    pid = os.fork()
    if pid == 0:
        ok = False
        try:
            service = contained(plugin)
            ok = service.call("identity", [3], seconds=20) == [3]
            service.close()
        finally:
            os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_supervisor_killed_at_any_moment_of_a_start_leaves_nothing(plugin):
    """Moments are drawn by a fixed seed from the time that a start takes."""
    program = textwrap.dedent(f"""
        from aliquot.isolation.settings import read_settings
        from aliquot.isolation import host, proving
        from tests.isolation.attacks import contained
        host.launcher_for = lambda c, target, limits: proving.contained_launcher(c, target, limits, read_settings())
        print("begun", flush=True)
        while True:
            service = contained({plugin!r})
            service.call("identity", [1], seconds=20)
            service.close()
    """)
    chance = random.Random(1)
    for _ in range(6):
        supervisor = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        assert supervisor.stdout is not None and supervisor.stdout.readline() == "begun\n"
        time.sleep(chance.uniform(0, 0.3))
        family = descendants(supervisor.pid)
        supervisor.send_signal(signal.SIGKILL)
        supervisor.wait()
        supervisor.stdout.close()
        deadline = time.monotonic() + 10
        while left := [pid for pid in family if _runs_a_worker(pid)]:
            assert time.monotonic() < deadline, left
            time.sleep(0.02)


def _runs_a_worker(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX" and Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


def test_a_user_id_is_given_to_one_holder_at_a_time(tmp_path):
    uids = range(60700, 60703)
    slots = [take_slot(uids, tmp_path) for _ in uids]
    assert [slot.uid for slot in slots] == [*uids]
    with pytest.raises(SandboxUnavailable, match="ALIQUOT_SANDBOX_UIDS"):
        take_slot(uids, tmp_path)
    slots[1].release()
    again = take_slot(uids, tmp_path)
    assert again.uid == 60701
    for slot in (slots[0], slots[2], again):
        slot.release()


def test_a_user_id_of_an_account_or_a_process_is_passed_over(tmp_path):
    assert take_slot(range(1, 60700), tmp_path).uid not in {1, 2, 3, os.geteuid()}
    if os.geteuid() == 0:
        sleeper = subprocess.Popen(["setpriv", "--reuid", "60800", "--clear-groups", "sleep", "30"])
        try:
            while os.stat(f"/proc/{sleeper.pid}").st_uid != 60800:
                time.sleep(0.01)
            assert take_slot(range(60800, 60802), tmp_path).uid == 60801
        finally:
            sleeper.kill()
            sleeper.wait()


def test_a_group_of_version_2_is_made_limited_and_entered(tmp_path):
    """The interface is plain files; these stand in for the kernel's."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids")
    (place,) = cgroups.find_places((str(tmp_path),))
    assert place.version == 2 and place.controllers == ("memory", "pids", "cpu")
    group = cgroups.Group.make([place], 300, 20, 1.5)
    (folder,) = group.folders
    assert group.controls == ("cgroup_memory", "cgroup_pids", "cgroup_cpu")
    written = {path.name: path.read_text() for path in folder.iterdir()}
    assert written == {"memory.max": str(300 * 2**20), "memory.swap.max": "0", "memory.oom.group": "1",
                       "pids.max": "20", "cpu.max": "150000 100000"}  # fmt: skip
    said = subprocess.run([*group.enter(), "echo", "a b"], capture_output=True, text=True)
    assert said.stdout == "a b\n" and (folder / "cgroup.procs").read_text().strip() == "0"
    (folder / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert group.killed_for_memory()


@pytest.mark.parametrize("path", ["/", "/etc", "/proc/self", "/root", "/home", "/var", "/dev/null", str(Path.home())])
def test_too_much_is_never_shown(path):
    with pytest.raises(SandboxUnavailable, match="too much|not there"):
        view_of(Containment(read_only=(path,)), "json:loads")


def test_a_data_file_is_shown_and_cannot_be_written(plugin, tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("a,b")
    data.chmod(0o644)
    service = contained(plugin, read_only=(str(data),))
    assert attack(service, "read_files", [str(data), str(tmp_path / "other")]) == {
        str(data): "done", str(tmp_path / "other"): "ENOENT",
    }  # fmt: skip
    service.close()


def test_the_home_folder_is_not_shown_even_when_the_interpreter_stands_in_it(plugin):
    view = view_of(Containment(), plugin)
    home, shown = str(Path.home()), [there for _, there in view.binds]
    assert home not in shown and "/" not in shown and "/etc" not in shown


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> Path:
    """An environment of its own; it borrows our packages by a path file, and has one that we have not."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(f"{Path(numpy.__file__).parent.parent}\n")
    (packages / "only_here.py").write_text("VALUE = 42\n")
    return folder


@pytest.mark.parametrize("trusted", [True, False])
def test_a_plugin_may_have_an_interpreter_and_packages_of_its_own(environment, tmp_path, trusted):
    source = tmp_path / "mine.py"
    source.write_text("import sys, only_here, aliquot.verifiers.sdk\n"
                      "def factory(a): return {'who': lambda items: [[sys.prefix, only_here.VALUE]]}\n")  # fmt: skip
    source.chmod(0o644)
    packages = str(Path(numpy.__file__).parent.parent)
    containment = Containment(trusted=trusted, python=str(environment / "bin/python"), read_only=(packages,))
    service = Service("mine", f"{source}:factory", None, containment=containment)
    assert service.call("who", [1], seconds=20) == [[str(environment), 42]]
    service.close()


def test_an_environment_cannot_name_a_base_of_its_choice(environment, tmp_path):
    config = environment / "pyvenv.cfg"
    honest = config.read_text()
    (tmp_path / "elsewhere" / "bin").mkdir(parents=True)
    containment = Containment(python=str(environment / "bin/python"))
    config.write_text(f"home = {tmp_path}/elsewhere/bin\n")
    try:
        with pytest.raises(SandboxUnavailable, match="ALIQUOT_SANDBOX_PYTHONS"):
            view_of(containment, "json:loads")
        assert view_of(containment, "json:loads", (str(tmp_path / "elsewhere"),))
    finally:
        config.write_text(honest)
    (environment / "share").symlink_to(tmp_path)  # a package may put links into its environment
    assert str(tmp_path) not in str(view_of(containment, "json:loads").binds)
    (environment / "share").unlink()


def test_a_message_is_weighed_before_it_is_decoded():
    values = [0.5, "text", "x" * 300, None, True, -3, 70_000, {"a": [1, 2]}, "ä" * 20, 2**40]
    weigh(frame(Reply(1, items=values * 5000))[4:])
    json.dumps(values)
    with pytest.raises(ProtocolError, match="values"):
        weigh(frame(Reply(1, items=[[]] * 600_000))[4:])


def test_groups_that_a_killed_supervisor_left_are_removed(tmp_path):
    for name in ("aliquot-999999999-abc", f"aliquot-{os.getpid()}-abc", "aliquot-999999998-full/x", "other"):
        (tmp_path / name).mkdir(parents=True)
    cgroups._remove_orphans(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"aliquot-{os.getpid()}-abc", "aliquot-999999998-full", "other"}


def test_children_are_found_where_the_kernel_does_not_list_them(monkeypatch):
    child = subprocess.Popen(["sleep", "30"])
    listed = children_of(os.getpid())
    monkeypatch.setattr(watchdog, "KERNEL_LISTS_CHILDREN", False)
    assert child.pid in listed and {*children_of(os.getpid())} == {*listed}
    child.kill()
    child.wait()
