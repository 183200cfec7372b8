"""The judge of programs: what is right passes, and nothing that a hostile program does is worth a point."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest

from aliquot.domain import ConfigError, Design
from aliquot.isolation.containment import Containment
from aliquot.isolation.host import Service
from aliquot.verifiers.builtin.general import python_process
from aliquot.verifiers.builtin.general.python_code import PythonCode, agree
from aliquot.verifiers.builtin.general.python_process import PythonProcess
from aliquot.verifiers.ladder import VerifierLadder
from aliquot.verifiers.registry import validate_config
from aliquot.verifiers.sdk import Score
from aliquot.verifiers.stage import VerifierRef

ADD = {
    "entry": "add",
    "tests": [
        {"arguments": [1, 2], "expected": 3},
        {"arguments": [20], "keywords": {"b": 22}, "expected": 42},
        {"arguments": ["a", "b"], "expected": "ab"},
        {"arguments": [[1], [2.5]], "expected": [1, 2.5]},
    ],
}


def judge(program: str, config: dict[str, Any] = ADD) -> Score:
    verifier = PythonCode(PythonCode.Config.model_validate(config))
    (score,) = verifier.verify([Design(kind="sequence", value=program)])
    return score


def test_a_right_program_passes_every_test():
    score = judge("def add(a, b):\n    return a + b\n")
    assert score == Score(1.0, True, "4 of 4 tests passed", {"tests": ["passed"] * 4})


def test_a_program_gets_the_share_of_the_tests_that_it_passes():
    score = judge("def add(a, b):\n    return a + b if isinstance(a, int) else None\n")
    assert (score.score, score.accepted) == (0.5, False)
    assert score.reason == "2 of 4 tests passed; else: wrong value (2)"
    lenient = judge("def add(a, b):\n    return a + b if isinstance(a, int) else None\n", {**ADD, "minimum": 0.5})
    assert lenient.accepted


def test_the_standard_library_is_there():
    program = "\n".join(
        f"import {name}"
        for name in "math re json itertools functools collections heapq random decimal datetime ctypes".split()
    )
    assert judge(f"{program}\ndef add(a, b): return functools.reduce(lambda x, y: x + y, [a, b])").accepted


def test_an_alphabet_without_white_space_can_spell_a_program():
    assert judge("def␣add(a,b):⏎⇥c=a+b⏎⇥return␣c").accepted


def test_a_design_of_conditions_holds_its_program_in_a_parameter():
    verifier = PythonCode(PythonCode.Config.model_validate({**ADD, "parameter": "source"}))
    design = Design(kind="conditions", value={"source": "add=lambda a,b:a+b", "temperature": 3.0})
    assert [score.accepted for score in verifier.verify([design])] == [True]
    with pytest.raises(ValueError, match="no parameter 'source' with a program; the design has other"):
        list(verifier.verify([Design(kind="conditions", value={"other": "x"})]))


@pytest.mark.parametrize(
    ("body", "end"),
    [
        ("raise ValueError('3')", "raised"), ("return {1, 2}", "no value"), ("return float('nan')", "no value"),
        ("return b'3'", "no value"), ("return 10 ** 5000", "no value"), ("return 'x' * 100_000", "garbled"),
        ("x = []; x.append(x); return x", "no value"), ("return 'x' * 10 ** 10", "raised"), ("return '3'", "wrong"),
        ("return True", "wrong"), ("return 3.5", "wrong"), ("import sys; sys.exit(0)", "raised"),
        ("import os; os._exit(0)", "died"), ("import os; os.abort()", "died"),
        ("import ctypes; return ctypes.string_at(0)", "died"), ("return add(a, b)", "raised"),
        ("raise BaseException", "raised"), ("import os; os.closerange(0, 60)", "died"),
        ("return eval('(' * 99999)", "raised"), ("x = 'return'; exec(f'{x} 3')", "raised"),
    ],
)  # fmt: skip
def test_a_program_that_goes_wrong_fails_its_test_and_says_only_how(body, end):
    score = judge(f"def add(a, b):\n    {body}\n", {**ADD, "tests": ADD["tests"][:1]})
    assert (score.score, score.accepted, score.values) == (0, False, {"tests": [end]})


@pytest.mark.parametrize(
    ("program", "end"),
    [
        ("def add(a, b:", "raised"), ("x = 1", "no entry"), ("add = 3", "no entry"), ("raise SystemExit", "raised"),
        ("import os; os._exit(0)", "died"), ("", "no entry"), ("def add(a, b): return a\0", "raised"),
        ("\ud800", "raised"), ("while True: pass", "late"), ("(" * 5000, "raised"),
    ],
)  # fmt: skip
def test_a_program_whose_top_level_goes_wrong_fails_every_test_at_once(program, end):
    assert judge(program, {**ADD, "seconds": 0.2}).values == {"tests": [end] * 4}


@pytest.mark.parametrize(
    "hang",
    [
        "while True: pass",
        "import time\n    while True: time.sleep(9)",
        "while True:\n        try:\n            while True: pass\n        except BaseException: pass",
        "import re\n    re.match('(a+)+b', 'a' * 60)",
        "import signal\n    for n in range(1, 65):\n        try: signal.signal(n, signal.SIG_IGN)\n"
        "        except Exception: pass\n    while True: pass",
        "import sys\n    return sys.stdin.read() or input()[0] or (lambda: [0 for _ in iter(int, 1)])()",
    ],
)
def test_a_program_that_hangs_is_ended_and_the_rest_is_given_up(hang):
    score = judge(f"def add(a, b):\n    {hang}\n", {**ADD, "seconds": 0.1})
    assert score.score == 0 and set(score.values["tests"]) <= {"late", "not run", "raised"}


def test_one_slow_test_costs_only_itself():
    program = "def add(a, b):\n    while a == 20: pass\n    return a + b"
    assert judge(program, {**ADD, "seconds": 0.1}).values["tests"] == ["passed", "late", "passed", "passed"]


def test_a_program_longer_than_the_limit_is_not_run():
    assert judge("#" * 70_000).reason == "the program is longer than 64 KiB"


SECRET = "sesame-7f3a91"
HIDDEN = {"entry": "f", "tests": [{"arguments": [], "expected": SECRET}, {"arguments": [1], "expected": SECRET}]}
SEARCH = {
    "objects": """
        import gc, sys
        seen = [o for o in gc.get_objects()] + list(sys.modules.values())
        frame = sys._getframe()
        while frame:
            seen += [frame.f_locals, frame.f_globals, frame.f_code.co_consts]; frame = frame.f_back
        for o in seen:
            try: text = str(o)
            except BaseException: continue
            if "sesame" in text: i = text.index("sesame"); return text[i:i + 13]
    """,
    "descriptors": """
        import os
        for fd in range(64):
            try:
                text = os.read(fd, 99999).decode()
                if "sesame" in text: i = text.index("sesame"); return text[i:i + 13]
            except BaseException: pass
    """,
    "environment and command lines": """
        import os
        text = str(os.environ)
        for pid in (os.getpid(), os.getppid(), 1):
            for name in ("environ", "cmdline", "maps", "mem"):
                try: text += open(f"/proc/{pid}/{name}", "rb").read(999999).decode("latin1")
                except OSError: pass
        if "sesame" in text: i = text.index("sesame"); return text[i:i + 13]
    """,
    "own memory": """
        import ctypes, sys
        base = id(args) & ~0xFFFFF
        text = ctypes.string_at(base, 200_000).decode("latin1")
        if "sesame" in text: i = text.index("sesame"); return text[i:i + 13]
    """,
    "memory of the worker": """
        import ctypes, os
        libc = ctypes.CDLL(None)
        class V(ctypes.Structure): _fields_ = [("p", ctypes.c_void_p), ("n", ctypes.c_size_t)]
        held = ctypes.create_string_buffer(4096)
        mine, theirs = V(ctypes.addressof(held), 4096), V(id(args) & ~4095, 4096)
        n = libc.process_vm_readv(os.getppid(), ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0)
        return "sesame-7f3a91" if n > 0 or libc.ptrace(16, os.getppid(), 0, 0) == 0 else None
    """.replace("sesame-7f3a91", "read"),
    "files": """
        import os
        for folder in ("/", "/tmp", PLACE, os.path.expanduser("~"), "/work", "/etc", "/home", ".", ".."):
            for name in ("campaign.yaml", "passwd"):
                try: text = open(os.path.join(folder, name)).read()
                except OSError: continue
                return text[text.index("sesame"):][:13] if "sesame" in text else "sesame-7f3a91"
    """.replace("sesame-7f3a91", "another"),
}


@pytest.mark.parametrize("where", SEARCH)
def test_what_is_expected_is_nowhere_to_be_found(where, tmp_path):
    (tmp_path / "campaign.yaml").write_text(f"expected: {SECRET}")
    body = SEARCH[where].replace("PLACE", repr(str(tmp_path)))
    score = judge(f"def f(*args):{body}", HIDDEN)
    assert score.score == 0 and set(score.values["tests"]) <= {"wrong", "raised", "died", "late"}
    assert SECRET not in score.reason + str(score.values)


ESCAPES = {
    "fork": "import os; return os.fork() >= 0",
    "vfork": "import ctypes; return ctypes.CDLL(None).vfork() >= 0",
    "a thread": "import threading; threading.Thread(target=print).start(); return True",
    "clone3": "import ctypes; return ctypes.CDLL(None).syscall(435, ctypes.create_string_buffer(88), 88) >= 0",
    "a subprocess": "import subprocess; return subprocess.run(['/bin/true']).returncode == 0",
    "exec": "import os; os.execv('/bin/sh', ['sh', '-c', 'exit 0'])",
    "multiprocessing": "import multiprocessing; return len(multiprocessing.Pool(1).map(abs, [1])) == 1",
    "a signal to the worker": "import os; os.kill(os.getppid(), 0); return True",
    "a signal to the group": "import os; os.killpg(0, 0); return True",
    "a signal by descriptor owner": "import fcntl, os; fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid()); return True",
    "a tcp socket": "import socket; socket.socket(); return True",
    "a unix socket": "import socket; socket.socket(socket.AF_UNIX); return True",
    "a pair of sockets": "import socket; socket.socketpair(); return True",
    "a vsock": "import socket; socket.socket(40, socket.SOCK_STREAM); return True",
    "the root folder": "import os; return bool(os.listdir('/'))",
    "accounts": "return bool(open('/etc/passwd').read())",
    "processes": "import os; return bool(os.listdir('/proc'))",
    "its own process": "return bool(open('/proc/self/status').read())",
    "a temporary file": "import tempfile; return bool(tempfile.TemporaryFile())",
    "a file in /tmp": "open('/tmp/escaped', 'w').close(); return True",
    "a file in /dev/shm": "open('/dev/shm/escaped', 'w').close(); return True",
    "its own source": "import sys; open(sys.argv[0], 'r').read(); return True",
    "the packages of the project": "import aliquot; return True",
    "memory without a limit": "import resource; resource.setrlimit(resource.RLIMIT_AS, (-1, -1)); return True",
    "limits of the worker": "import os, resource; resource.prlimit(os.getppid(), 0, (9, 9)); return True",
    "priority of the worker": "import os; os.setpriority(os.PRIO_PROCESS, os.getppid(), 19); return True",
    "affinity of the worker": "import os; os.sched_setaffinity(os.getppid(), {0}); return True",
    "a session": "import os; os.setsid(); return True",
    "a user": "import os; os.setuid(0); os.setuid(65534); return True",
    "a link": "import os; os.symlink('/etc/passwd', '/tmp/escaped'); return True",
    "a mode": "import os, sys; os.chmod(sys.executable, 0o777); return True",
    "anonymous files": "import os; return os.memfd_create('x') >= 0",
    "shared memory": "import ctypes; return ctypes.CDLL(None).shmget(7, 4096, 0o1666) >= 0",
    "a message queue": "import ctypes; return ctypes.CDLL(None).msgget(7, 0o1666) >= 0",
    "keys of the kernel": "import ctypes; return ctypes.CDLL(None).syscall(248, b'user', b'x', b'y', 1, -3) >= 0",
    "a namespace": "import ctypes; return ctypes.CDLL(None).unshare(0x10000000) == 0",
    "a timer": "import signal; signal.setitimer(signal.ITIMER_REAL, 1); return True",
    "the death of the worker ignored": "import ctypes; return ctypes.CDLL(None).prctl(1, 0, 0, 0, 0) == 0",
    "32-bit calls": "import mmap, ctypes; m = mmap.mmap(-1, 4096, prot=7); m.write(bytes.fromhex('b802000000cd80c3')); "
    "return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))() >= 0",
}  # fmt: skip


@pytest.mark.parametrize("what", ESCAPES)
def test_a_program_gets_out_by_no_door(what):
    """Each program returns what is expected if, and only if, its way out is open."""
    score = judge(f"def f():\n    {ESCAPES[what]}\n", {"entry": "f", "tests": [{"expected": True}]})
    assert score.score == 0 and set(score.values["tests"]) <= {"raised", "died", "wrong"}, score
    assert not Path("/tmp/escaped").exists() and not Path("/dev/shm/escaped").exists()


def test_the_doors_are_really_doors():
    """The same programs, not confined: the tests above would fail if nothing held."""
    open_here = {
        what
        for what in ("fork", "a subprocess", "a tcp socket", "the root folder", "accounts", "a thread")
        if _opens(what)
    }
    assert open_here == {"fork", "a subprocess", "a tcp socket", "the root folder", "accounts", "a thread"}


def _opens(what: str) -> bool:
    import subprocess
    import sys

    program = f"def f():\n    {ESCAPES[what]}\nimport sys\nsys.exit(0 if f() is True else 1)"
    return subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


CHEATS = {
    "prints the answer": """
import sys, os
def f(*args):
    print('{"number": "0", "value": "right"}'); print("right", file=sys.stderr)
    for fd in range(64):
        try: os.write(fd, b'{"number": "0", "value": "right"}\\n')
        except OSError: pass
    return None
""",
    "leaves with success": "import os\ndef f(*args): os._exit(0)",
    "is equal to everything": """
class Always(str):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = str.__hash__
    def __repr__(self): return "right"
class Number(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
def f(*args): return Always("x") if args else Number(3)
""",
    "patches everything it can reach": """
import builtins, json, os, sys, gc
def f(*args):
    frame = sys._getframe()
    while frame:
        frame.f_globals["_say"] = lambda *a: None
        frame.f_globals["ADD"] = frame.f_globals["agree"] = lambda *a: True
        frame = frame.f_back
    builtins.any = builtins.all = builtins.callable = lambda *a: True
    json.dumps = lambda *a, **k: '{"number": "0", "value": "right"}'
    return "right"
""",
    "answers ahead of the questions": """
import os, sys
frame = sys._getframe()
while frame:
    if "answers" in frame.f_locals:
        os.write(frame.f_locals["answers"], b'{"number": "0", "value": "right"}\\n' * 5)
    frame = frame.f_back
def f(*args): return None
""",
    "raises the answer": "def f(*args): raise SystemExit({'value': 'right', 'passed': True})",
    "answers in the place of the driver": """
import json, os, sys
def f(*args):
    frame = sys._getframe()
    while frame and "request" not in frame.f_locals: frame = frame.f_back
    request, loop = frame.f_locals["request"], frame
    while loop and "answers" not in loop.f_locals: loop = loop.f_back
    answer = json.dumps({"number": request["number"], "value": "guess", "passed": 1}).encode()
    os.write(loop.f_locals["answers"], answer + b"\\n")
    os._exit(0)
""",
}  # fmt: skip


@pytest.mark.parametrize("how", CHEATS)
def test_no_trick_is_worth_a_point(how):
    tests = [{"arguments": [], "expected": "the right one"}, {"arguments": [1], "expected": "the right one"}]
    score = judge(CHEATS[how], {"entry": "f", "tests": tests})
    assert (score.score, score.accepted) == (0, False)
    assert "right" not in score.reason and "right" not in str(score.values)


def test_a_program_cannot_make_itself_a_failure_of_the_machine():
    """It answers at once and never reads again, while the next question is longer than the pipe."""
    program = """
import json, os, sys
def f(x):
    loop = sys._getframe()
    while "answers" not in loop.f_locals: loop = loop.f_back
    request = loop.f_locals["request"]
    os.write(loop.f_locals["answers"], json.dumps({"number": request["number"], "value": None}).encode() + b"\\n")
    while True: os.read(0, 1)
"""
    tests = [{"arguments": ["x"], "expected": 1}, *[{"arguments": ["x" * 60_000, "y" * 4000], "expected": 1}] * 2]
    score = judge(program, {"entry": "f", "tests": tests, "seconds": 0.2})
    assert score.values == {"tests": ["wrong", "late", "raised"]}


def test_sleep_counts_so_that_many_tests_just_in_time_do_not_add_up_to_hours():
    program = "import time\ndef f(): time.sleep(0.3)"
    score = judge(program, {"entry": "f", "tests": [{"expected": None}] * 100, "total_seconds": 0.5})
    assert score.values["tests"].count("not run") > 90 and score.score < 0.1


def children() -> set[int]:
    """Processes of which this one is the parent."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(path.parent.name))
    return found


def test_no_process_outlives_its_design():
    before = children()
    judge("import os\ndef add(a, b): os._exit(0)")
    judge("while True: pass", {**ADD, "seconds": 0.1})
    assert children() <= before


def test_a_worker_that_dies_takes_the_program_with_it(tmp_path):
    import subprocess
    import sys
    import time

    text = (
        "from aliquot.verifiers.builtin.general.python_process import PythonProcess\n"
        "import os\np = PythonProcess(256, 60)\nprint(p._process.pid, flush=True)\n"
        "p.load('import time\\ntime.sleep(60)', 'f', 60)"
    )
    worker = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    child = int(worker.stdout.readline())
    worker.kill()
    worker.wait()
    for _ in range(200):
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the program still runs")


def test_where_a_control_does_not_hold_no_program_is_run(monkeypatch, tmp_path):
    stub = tmp_path / "landlock.py"
    stub.write_text("def restrict(*arguments): pass\n")
    monkeypatch.setattr(python_process, "landlock", type("Stub", (), {"__file__": str(stub)}))
    with pytest.raises(RuntimeError, match="cannot confine a proposed program, so none is run: .*list the root folder"):
        judge("def add(a, b): return a + b")


def test_a_machine_too_busy_to_run_it_is_no_fault_of_the_program(monkeypatch):
    """The program sleeps; as far as the kernel says here, it was waiting for a processor all the time."""
    import time

    with PythonProcess(256, 10) as process:
        process.load("import time\ndef f(): time.sleep(30)", "f", 5)
        monkeypatch.setattr(python_process, "_waiting_time", lambda pid: time.monotonic())
        monkeypatch.setattr(python_process, "START_SECONDS", 0.2)
        with pytest.raises(TimeoutError, match="the machine was too busy"):
            process.call("f", [], {}, 0.01)
        assert process.ended


@pytest.mark.parametrize(
    ("found", "expected", "same"),
    [
        (1, 1, True), (1, 1.0, True), (1.0, 1, True), (True, 1, False), (1, True, False), (None, False, False),
        (0.1 + 0.2, 0.3, True), (10**400, 1.5, False), (10**400, 10**400, True), ("1", 1, False),
        ([1, 2], [1, 2], True), ([1], [1, 1], False), ({"a": [1.0]}, {"a": [1]}, True), ({"a": 1}, {"b": 1}, False),
        ([], {}, False), ("", None, False), (0.0, 1e-13, True), (1.0, 1.001, False),
    ],
)  # fmt: skip
def test_values_are_compared_as_json_is(found, expected, same):
    assert agree(found, expected, 1e-9) is same


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"tests": []}, "config.tests"),
        ({"tests": [{"arguments": [1]}]}, "config.tests.0.expected"),
        ({"entry": "a b", "tests": [{"expected": 1}]}, "config.entry"),
        ({"tests": [{"expected": 1, "arguments": ["x" * 70_000]}]}, "[0]: the arguments are longer than 64 KiB"),
        ({"tests": [{"expected": 1}], "seconds": 100}, "config.seconds"),
    ],
)
def test_a_wrong_configuration_says_where_and_how_to_mend_it(config, says):
    with pytest.raises(ConfigError) as error:
        validate_config("python_code", config)
    assert says in str(error.value)


HOSTED = """
from aliquot.domain import Design
from aliquot.verifiers.builtin.general.python_code import PythonCode

def factory(config):
    verifier = PythonCode(PythonCode.Config.model_validate(config))

    def verify(items):
        for score in verifier.verify([Design(kind="sequence", value=item) for item in items]):
            yield [score.score, score.values["tests"]]

    return {"verify": verify}
"""


def test_inside_a_sandboxed_worker_it_judges_and_confines_as_well(tmp_path):
    (path := tmp_path / "hosted.py").write_text(HOSTED)
    programs = [
        "def f(): return True",
        *(f"def f():\n    {ESCAPES[what]}\n" for what in ("fork", "its own process", "exec")),
    ]
    config = {"entry": "f", "tests": [{"expected": True}]}
    service = Service("nested", f"{path}:factory", config, containment=Containment(), startup_seconds=120)
    try:
        answers = service.call("verify", programs, seconds=60)
    finally:
        service.close()
    assert answers == [[1.0, ["passed"]], *[[0.0, ["raised"]]] * 3]


def test_in_a_campaign_a_hostile_design_is_a_zero_and_its_neighbours_are_judged():
    programs = [
        "def add(a, b): return a + b",
        "import os\ndef add(a, b): os.kill(os.getppid(), 9)",
        "add=lambda a,b:a+b",
    ]
    with VerifierLadder([VerifierRef(type="python_code", config=ADD)], kind="sequence") as ladder:
        judged = ladder.verify([Design(kind="sequence", value=program) for program in programs])
    verdicts = [judgement.verdicts["python_code"] for judgement in judged]
    assert [verdict.score for verdict in verdicts] == [1, 0, 1]
    assert all(verdict.error is None for verdict in verdicts)
