"""Hostile plugins, and what comes of them. `test_ordinary_user` runs this file again as an ordinary user."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from aliquot.domain import Outcome
from aliquot.isolation.host import Failure, Service
from aliquot.isolation.launch import Limits
from aliquot.isolation.watchdog import descendants
from tests.isolation.attacks import LIMITS, attack, contained, failed

ABSENT = {"ENOENT", "EACCES"}
READ_ONLY = {"EROFS", "EACCES", "ENOENT", "EPERM"}
REFUSED = {"EPERM", "EACCES"}


# files


def test_files_of_others_are_not_there(worker, tmp_path, project):
    secret, database = tmp_path / "secret", tmp_path / "campaign.sqlite"
    for path in (secret, database):
        path.write_text("secret")
        path.chmod(0o644)
    other = tmp_path / "other_plugin.py"
    other.write_text("")
    paths = ["/etc/passwd", "/etc/shadow", "/etc/hostname", "/root/.ssh", str(Path.home() / ".ssh"), str(secret),
             str(database), str(other), str(project), str(project / "pyproject.toml"), "/var/log", "/run",
             f"/proc/self/root{secret}", f"/tmp/../{secret}", "/sys/kernel", "/dev/sda", "/dev/vda"]  # fmt: skip
    said = attack(worker, "read_files", paths)
    assert {*said} == {*paths}
    above = (
        {str(project)} if project.is_relative_to("/tmp") else set()
    )  # holds the interpreter: a folder of the scratch
    assert {path: how for path, how in said.items() if how not in ABSENT and path not in above} == {}


def test_nothing_outside_its_scratch_can_be_written(worker):
    said = attack(worker, "write_files")
    assert len(said) > 10
    scratch = {folder for folder in said if folder.startswith("/tmp/")}  # of a project that itself stands in /tmp
    assert {folder: how for folder, how in said.items() if how not in READ_ONLY and folder not in scratch} == {}


def test_programs_cannot_be_changed_linked_or_removed(worker):
    said = attack(worker, "change_programs")
    assert {what: how for what, how in said.items() if how not in {*READ_ONLY, "EXDEV", "EBUSY"}} == {}


@pytest.mark.parametrize(("folder", "most"), [("/tmp", LIMITS.scratch_mb), ("/dev/shm", LIMITS.shared_mb)])
def test_scratch_space_has_a_cap(worker, folder, most):
    written, how = attack(worker, "fill", folder)
    assert how == "ENOSPC"
    assert 0 < written <= most * 2**20


def test_a_sparse_file_cannot_pass_the_limit_of_a_file(worker):
    assert attack(worker, "big_file") == "EFBIG"


def test_empty_files_without_number_end_the_worker_and_not_the_machine(plugin):
    service = contained(plugin, limits=Limits(memory_mb=128, scratch_mb=16))
    failure = failed(service, "flood_of_files", seconds=120)
    assert "MiB together" in failure.message
    service.close()


# what it is given


def test_its_environment_holds_nothing_of_ours(fresh, monkeypatch):
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    said = attack(fresh, "environment")
    assert {*said} <= {"PATH", "HOME", "TMPDIR", "LANG", "LC_CTYPE", "LOGNAME", "PWD", "OMP_NUM_THREADS",
                       "OPENBLAS_NUM_THREADS", "MALLOC_ARENA_MAX"}  # fmt: skip
    assert "hunter2" not in str(said)
    around = [Path(f"/proc/{pid}/environ").read_bytes() for pid in (fresh._process.pid, *descendants(os.getpid()))]
    assert b"hunter2" not in around[0] and b"PASSWORD" not in around[0]


def test_it_has_no_descriptors_but_its_own(fresh, tmp_path):
    held = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(held, True)
    said = attack(fresh, "descriptors")
    os.close(held)
    assert [link.partition(":")[0] for link in said.values()] == ["pipe", "pipe"]


def test_it_sees_no_processes_but_its_own(worker):
    assert attack(worker, "others_in_sight") == [1, 2]


def test_the_first_process_of_its_namespace_is_closed_to_it(worker):
    said = attack(worker, "look_into_others")
    assert said.pop("/proc/1/cmdline") in {*ABSENT, "done"}  # how the sandbox was started is no secret
    assert {path: how for path, how in said.items() if how not in {*ABSENT, "EPERM"}} == {}


def test_the_kernel_takes_it_for_nobody(worker):
    said = attack(worker, "status")
    assert said["NoNewPrivs"] == "1" and said["Seccomp"] == "2"
    assert {int(said[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
    outside = Path(f"/proc/{worker.pid}/status").read_text()
    uids = outside.partition("Uid:")[2].partition("\n")[0].split()
    assert "0" not in uids
    if os.geteuid() == 0:
        assert len({*uids}) == 1 and int(uids[0]) in range(60600, 61112)
    else:
        assert {*uids} == {str(os.geteuid())}
        assert Path(f"/proc/{worker.pid}/uid_map").read_text().split()[1:] == [str(os.geteuid()), "1"]


def test_no_two_workers_share_a_user_id_or_else_a_user_namespace(plugin, worker):
    services = [contained(plugin) for _ in range(3)]
    assert all(service.call("identity", [1], seconds=20) == [1] for service in (worker, *services))
    pids = [service.pid for service in (worker, *services)]
    if os.geteuid() == 0:
        apart = {os.stat(f"/proc/{pid}").st_uid for pid in pids}
    else:
        apart = {os.readlink(f"/proc/{pid}/ns/user") for pid in pids}
    assert len(apart) == 4
    for service in services:
        service.close()


# network


def test_no_socket_but_a_unix_one_can_be_made(worker):
    said = attack(worker, "sockets")
    assert {*said.values()} == {"EAFNOSUPPORT"}, said


def test_no_server_and_no_name_can_be_reached(worker):
    with socket.create_server(("127.0.0.1", 0)) as server:
        said = attack(worker, "reach", server.getsockname())
    assert said["server"] == "EAFNOSUPPORT" and said["name"] != "done"


def test_abstract_sockets_of_the_host_are_out_of_reach(worker):
    name = f"aliquot-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(b"\0" + name.encode())
        server.listen()
        assert attack(worker, "abstract_socket", name) in {"ECONNREFUSED", "EPERM"}


# the kernel


def test_system_calls_that_lead_out_are_refused(worker):
    said = attack(worker, "system_calls")
    assert said.pop("clone3") == said.pop("future") == said.pop("minus one") == "ENOSYS"
    for harmless_for_an_ordinary_user in ("setuid", "setgid", "capset", "setgroups"):
        assert said.pop(harmless_for_an_ordinary_user) in {"EPERM", "EINVAL", "EFAULT"}
    assert len(said) > 40
    assert {name: how for name, how in said.items() if how != "EPERM"} == {}


def test_other_doors_into_the_kernel_are_shut(worker):
    said = attack(worker, "other_doors")
    assert said in ({}, {"int 0x80": "SIGSYS", "x32": "ENOSYS", "x32 unshare": "ENOSYS"})


def test_no_setting_of_the_kernel_can_be_opened_for_writing(worker):
    assert attack(worker, "settings_of_the_kernel") == []


def test_devices_and_switches_of_the_machine_are_shut(worker):
    said = attack(worker, "write_to_the_kernel")
    assert {path: how for path, how in said.items() if how not in {*ABSENT, "EROFS", "EPERM"}} == {}


def test_set_user_id_programs_give_no_privilege(worker):
    result = attack(worker, "set_user_id_programs", seconds=60)
    assert result["found"] > 0  # there are such programs to try
    assert {name: said for name, said in result["said"].items() if said[0] == 0 or said[1].strip() == "0"} == {}
    assert result["user"] != 0


def test_words_cannot_be_put_into_a_terminal(worker):
    said = attack(worker, "terminal")
    assert said.pop("/dev/tty") in {"ENXIO", "EIO", "EACCES"}
    assert {*said.values()} == {"EPERM"}


def test_limits_and_priorities_cannot_be_raised(worker):
    said = attack(worker, "more_for_me")
    assert "done" not in said.values(), said


def test_processes_outside_cannot_be_signalled(worker, plugin):
    sibling = contained(plugin)
    assert sibling.call("identity", [1], seconds=20) == [1]
    pids = [os.getpid(), worker._process.pid, sibling.pid, sibling._process.pid]
    said = attack(worker, "signal_pids", [pid for pid in pids if pid > 2])
    assert {*said.values()} <= {"ESRCH", "EPERM"}
    attack(worker, "signal_everybody")
    assert sibling.call("identity", [1], seconds=20) == [1] and sibling.starts == 1
    sibling.close()


def test_it_cannot_dump_core(worker):
    how, files = attack(worker, "dumpable")
    assert how == "SIGABRT" and files == []


# too much of everything


def test_a_fork_bomb_is_stopped_and_others_go_on(worker, plugin):
    other = contained(plugin)
    assert other.call("identity", [1], seconds=20) == [1]
    count, how = attack(worker, "fork_bomb", seconds=60)
    assert count <= LIMITS.processes and how == "EAGAIN"
    assert other.call("identity", [2], seconds=20) == [2] and other.starts == 1
    other.close()


def test_a_thread_bomb_is_stopped(worker):
    assert 0 < attack(worker, "thread_bomb") <= LIMITS.processes


def test_one_allocation_above_the_limit_is_a_memory_error(worker):
    assert "MemoryError" in failed(worker, "one_big_allocation").message


def test_many_processes_together_cannot_pass_the_limit(plugin):
    service = contained(plugin, limits=Limits(memory_mb=256, scratch_mb=16))
    (result,) = service.call("attack", [["many_allocations", 128]], seconds=60)
    assert result == "killed" or "MiB together" in result.message
    assert service.call("identity", [1], seconds=60) == [1]
    service.close()


def test_pipes_are_limited_in_number(worker):
    count, how = attack(worker, "many_pipes")
    assert how in {"EMFILE", "ENFILE"} and count <= LIMITS.open_files


def test_a_worker_that_leaks_is_replaced(plugin):
    service = contained(plugin, limits=Limits(memory_mb=512))
    pids = []
    for _ in range(6):
        pids.append(attack(service, "leak", 80))
        time.sleep(0.3)
    assert service.starts > 1
    assert all(isinstance(pid, int) for pid in pids)
    service.close()


# never answering


@pytest.mark.parametrize("name", ["spin", "regular_expression", "stop_myself", "deaf_family", "close_everything"])
def test_what_never_answers_is_killed_with_all_that_it_started(fresh, name):
    assert fresh.call("identity", [1], seconds=20) == [1]
    family = [fresh._process.pid, *descendants(fresh._process.pid)]
    assert len(family) == 3
    failure = failed(fresh, name, seconds=0.7)
    timed_out = name != "close_everything"
    assert failure.outcome is (Outcome.TIMED_OUT if timed_out else Outcome.INFRASTRUCTURE_ERROR)
    assert fresh.starts == 2
    _assert_gone(family)


def test_one_hanging_item_leaves_the_others_their_results(fresh):
    items = [["leak", 1], ["spin", None], ["others_in_sight", None], ["give_nan", None]]
    results = fresh.call("attack", items, seconds=0.5)
    assert [isinstance(result, Failure) for result in results] == [False, True, False, True]
    assert results[1].outcome is Outcome.TIMED_OUT and "spin" in results[1].message
    assert "NaN" in results[3].message


def test_a_daemon_does_not_outlive_its_worker(fresh):
    assert attack(fresh, "leave_daemon") == "left"
    family = descendants(fresh._process.pid)
    assert len(family) == 3
    fresh.close()
    _assert_gone(family)


def test_everything_is_gone_when_the_supervisor_is_killed(plugin):
    program = textwrap.dedent(f"""
        from aliquot.isolation.watchdog import descendants
        from tests.isolation.attacks import contained
        service = contained({plugin!r})
        service.call("attack", [["leave_daemon", None]], seconds=20)
        print(service._process.pid, *descendants(service._process.pid), flush=True)
        service.call("attack", [["deaf_family", None]], seconds=50)
    """)
    supervisor = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert supervisor.stdout is not None
    family = list(map(int, supervisor.stdout.readline().split()))
    assert len(family) >= 4
    supervisor.kill()
    supervisor.wait()
    supervisor.stdout.close()
    _assert_gone(family)


@pytest.mark.parametrize("descriptor", [1, 2])
def test_a_flood_of_output_does_not_fill_our_memory(fresh, descriptor):
    fresh.call("identity", [1], seconds=20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert attack(fresh, "flood", descriptor, seconds=60) == "done"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 * 1024
    assert fresh.call("identity", [1], seconds=20) == [1] and fresh.starts == 1


# crashes and strange results


@pytest.mark.parametrize(("name", "says"), [("segfault", "SIGSEGV"), ("abort", "SIGABRT"), ("leave", "exit code 0")])
def test_a_crash_is_said_to_be_one(fresh, name, says):
    assert says in failed(fresh, name).message


@pytest.mark.parametrize("name", ["give_nan", "give_infinity", "give_too_large", "give_deep", "give_bytes"])
def test_a_result_that_is_no_json_value_is_not_one(worker, name):
    failed(worker, name)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("huge", "4294967295 bytes was announced"),
        ("truncated", "no answer within"),
        ("count", "sent 0 results for 1 items"),
        ("nonce", "answered another request"),
        ("two", "follow the frame"),
        ("garbage", "malformed reply"),
        ("not a reply", "malformed reply"),
        ("bomb", "more than 524288 values"),
    ],
)
def test_a_forged_frame_ends_the_worker(fresh, kind, says):
    assert says in failed(fresh, "frames", kind, seconds=2).message
    assert fresh.starts == 2


def test_a_reply_that_nobody_asked_for_ends_the_worker(fresh):
    assert attack(fresh, "answer_later") == "honest"
    time.sleep(0.5)
    (result,) = fresh.call("identity", ["mine"], seconds=20)
    assert isinstance(result, Failure) and "nobody had asked" in result.message
    assert fresh.call("identity", ["mine"], seconds=20) == ["mine"]


# starting


@pytest.mark.parametrize(
    ("source", "outcome", "says"),
    [
        ("import sys; sys.exit('not today')", Outcome.INFRASTRUCTURE_ERROR, "not today"),
        ("import no_such_library", Outcome.INFRASTRUCTURE_ERROR, "no_such_library"),
        ("import time; time.sleep(60)", Outcome.TIMED_OUT, "no answer within 1.5 s"),
        ("while True: pass", Outcome.TIMED_OUT, "no answer within 1.5 s"),
    ],
)
def test_a_plugin_that_does_not_start_is_given_up(tmp_path, source, outcome, says):
    tmp_path.chmod(0o755)
    (tmp_path / "bad.py").write_text(source)
    service = Service(
        "bad", f"{tmp_path}/bad.py:factory", None, startup_seconds=1.5, containment=contained("").containment
    )
    (result,) = service.call("verify", [1], seconds=5)
    assert isinstance(result, Failure) and result.outcome is outcome and says in result.message
    assert service.failure is not None
    service.close()


def test_a_repeat_offender_is_quarantined_until_it_is_released(fresh):
    for _ in range(3):
        (result,) = fresh.call("attack", [["abort", None]], seconds=20)
        assert isinstance(result, Failure)
    starts = fresh.starts
    (result,) = fresh.call("identity", [1], seconds=20)
    assert isinstance(result, Failure) and "quarantine" in result.message and fresh.starts == starts
    fresh.release()
    assert fresh.call("identity", [1], seconds=20) == [1]


def test_one_that_crashes_now_and_then_is_not_quarantined(fresh):
    for _ in range(4):
        results = fresh.call("attack", [["abort", None], ["others_in_sight", None]], seconds=20)
        assert isinstance(results[0], Failure) and results[1] == [1, 2]


def test_nothing_is_remembered_between_batches_that_run_in_copies(plugin):
    service = contained(plugin, isolation="batch")
    assert {attack(service, "others_in_sight")[1] for _ in range(2)} == {2}
    for _ in range(3):
        calls, in_tmp, in_shm, others, above = attack(service, "remember")
        assert (calls, in_tmp, in_shm, others) == (1, 1, 1, 3) and above in REFUSED
    failure = failed(service, "abort")
    assert "copy died" in failure.message and service.starts == 1
    with pytest.raises(ValueError, match="memory"):
        service.call("identity", [1], seconds=1, remembers=True)
    service.close()


# leaving nothing behind


def test_nothing_is_left_of_workers_that_were_killed(plugin):
    service = contained(plugin)
    service.call("identity", [1], seconds=20)
    group = service._process.launch.group
    folders = [*group.folders]
    assert (os.geteuid() != 0) or folders
    service.close()
    before = _held()
    for _ in range(5):
        service.call("attack", [["abort", None]], seconds=20)
        service.release()
        service.call("identity", [1], seconds=20)
        folders += service._process.launch.group.folders
        service.close()
    assert not any(folder.exists() for folder in folders)
    for _ in range(100):  # the dead are buried by their own parents, in their own time
        if _held() == before:
            return
        time.sleep(0.05)
    assert _held() == before


def _held() -> tuple[int, int, list[int]]:
    """Descriptors, mounts and children of this process."""
    mounts = len(Path("/proc/self/mountinfo").read_text().splitlines())
    return len(os.listdir("/proc/self/fd")), mounts, descendants(os.getpid())


def _assert_gone(pids: list[int]) -> None:
    for _ in range(300):
        left = [pid for pid in pids if _state(pid) not in (None, "Z", "X")]
        if not left:
            return
        time.sleep(0.02)
    raise AssertionError(f"still there: {left}")


def _state(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None
