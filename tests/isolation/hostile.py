"""A plugin that does its worst, one attack at a time. Runs only inside a worker.

An attack gives what came of each thing that it tried: the name of the errno with which it was refused, or `done`.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import fcntl
import gc
import glob
import mmap
import os
import platform
import re
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
SYSCALLS = (
    {"unshare": 272, "setns": 308, "mount": 165, "chroot": 161, "ptrace": 101, "process_vm_readv": 310, "bpf": 321,
     "perf_event_open": 298, "keyctl": 250, "add_key": 248, "io_uring_setup": 425, "userfaultfd": 323,
     "personality": 135, "clone": 56, "clone3": 435, "mknodat": 259, "memfd_create": 319, "shmget": 29,
     "msgget": 68, "semget": 64, "mq_open": 240, "inotify_init1": 294, "open_by_handle_at": 304, "pidfd_getfd": 438,
     "clock_settime": 227, "sethostname": 170, "pivot_root": 155, "open_tree": 428, "fsopen": 430, "kcmp": 312,
     "fanotify_init": 300, "syslog": 103, "setuid": 105, "setgid": 106, "setgroups": 116, "capset": 126,
     "init_module": 175, "reboot": 169, "modify_ldt": 154, "iopl": 172, "move_pages": 279, "future": 468}
    if X86
    else
    {"unshare": 97, "setns": 268, "mount": 40, "chroot": 51, "ptrace": 117, "process_vm_readv": 270, "bpf": 280,
     "perf_event_open": 241, "keyctl": 219, "add_key": 217, "io_uring_setup": 425, "userfaultfd": 282,
     "personality": 92, "clone": 220, "clone3": 435, "mknodat": 33, "memfd_create": 279, "shmget": 194,
     "msgget": 186, "semget": 190, "mq_open": 180, "inotify_init1": 26, "open_by_handle_at": 265, "pidfd_getfd": 438,
     "clock_settime": 112, "sethostname": 161, "pivot_root": 41, "open_tree": 428, "fsopen": 430, "kcmp": 272,
     "fanotify_init": 262, "syslog": 116, "setuid": 146, "setgid": 144, "setgroups": 159, "capset": 91,
     "init_module": 105, "reboot": 142, "move_pages": 239, "future": 468}
)  # fmt: skip


def tried(action, *arguments):
    """The errno's name, or `done`."""
    try:
        action(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "done"


def syscall(name, *arguments):
    number = name if isinstance(name, int) else SYSCALLS[name]
    ctypes.set_errno(0)
    result = LIBC.syscall(*map(ctypes.c_long, (number, *arguments)))
    return "done" if result >= 0 else errno.errorcode[ctypes.get_errno()]


def in_child(work):
    """What a forked child gave (`repr`), or the signal that ended it."""
    receiving, sending = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(sending, str(work()).encode())
        finally:
            os._exit(0)
    os.close(sending)
    said = os.read(receiving, 4096).decode()
    os.close(receiving)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return signal.Signals(-status).name if status < 0 else said


# files


def read_files(paths):
    return {path: tried(lambda p=path: os.close(os.open(p, os.O_RDONLY))) for path in paths}


def write_files(_):
    import numpy

    folders = [
        "/",
        "/usr",
        "/usr/bin",
        "/dev",
        "/dev/pts",
        "/opt",
        "/proc",
        "/run",
        "/var",
        "/home",
        "/etc",
        os.path.dirname(numpy.__file__),
        os.path.dirname(os.__file__),
        sys.prefix,
        "/opt/aliquot/aliquot",
    ]
    return {f: tried(lambda p=f"{f}/x": os.close(os.open(p, os.O_WRONLY | os.O_CREAT))) for f in folders}  # fmt: skip


def change_programs(_):
    python = os.path.realpath(sys.executable)
    return {
        "truncate": tried(os.truncate, python, 0),
        "chmod": tried(os.chmod, python, 0o4755),
        "hard link": tried(os.link, python, "/tmp/python"),
        "hard link of ours": tried(os.link, __file__, "/tmp/plugin"),
        "unlink": tried(os.unlink, __file__),
        "rename": tried(os.rename, "/usr/bin", "/usr/nib"),
        "mkdir": tried(os.mkdir, "/usr/x"),
        "symlink": tried(os.symlink, "/etc", "/usr/x"),
        "xattr": tried(os.setxattr, python, "user.x", b"1"),
    }


def look_into_others(_):
    names = ("environ", "mem", "maps", "cmdline", "cwd/.", "root/.", "fd/0", "auxv", "stack", "syscall", "io", "ns/net")
    said = {f"/proc/1/{name}": tried(lambda p=name: os.read(os.open(f"/proc/1/{p}", os.O_RDONLY), 1)) for name in names}
    return said | {"write mem": tried(lambda: os.close(os.open("/proc/1/mem", os.O_RDWR)))}


def others_in_sight(_):
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def alive(process):
    """Whether it is there and not only waiting to be buried."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def fill(folder):
    written, chunk, number = 0, bytes(2**20), 0
    try:
        while written < 2**31:
            with open(f"{folder}/fill{number}", "wb", buffering=0) as file:
                for _ in range(16):
                    written += file.write(chunk)
            number += 1
    except OSError as error:
        ended = errno.errorcode[error.errno]
    for path in glob.glob(f"{folder}/fill*"):
        os.unlink(path)
    return [written, ended]


def big_file(_):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open("/tmp/big", "wb") as file:
        said = tried(os.truncate, file.fileno(), 2**33)
    os.unlink("/tmp/big")
    return said


def flood_of_files(_):
    """Empty files: no bytes, but the kernel's memory."""
    for number in range(3_000_000):
        os.close(os.open(f"/tmp/{number}", os.O_CREAT | os.O_WRONLY))
    return "done"


# what it was given


def environment(_):
    return dict(os.environ)


def descriptors(_):
    said = {}
    for number in range(3, 256):
        try:
            said[str(number)] = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
    return said


def status(_):
    with open("/proc/self/status") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}


# network


def sockets(_):
    kinds = {"tcp": (2, 1), "udp": (2, 2), "tcp6": (10, 1), "raw": (2, 3), "netlink": (16, 3), "packet": (17, 3),
             "alg": (38, 5), "vsock": (40, 1), "bluetooth": (31, 1), "can": (29, 3), "tipc": (30, 1), "xdp": (44, 3),
             "high bits": (2 + 2**32, 1)}  # fmt: skip
    number = 41 if X86 else 198
    said = {name: syscall(number, family, kind, 0) for name, (family, kind) in kinds.items()}
    return said | {"pair": tried(socket.socketpair, socket.AF_INET, socket.SOCK_STREAM)}


def reach(where):
    """A server at (host, port), and the world by name."""
    said = {"server": tried(socket.create_connection, tuple(where), 1)}
    try:
        socket.getaddrinfo("example.com", 443)
        said["name"] = "done"
    except OSError as error:
        said["name"] = type(error).__name__
    return said


def abstract_socket(name):
    with socket.socket(socket.AF_UNIX) as one:
        return tried(one.connect, b"\0" + name.encode())


def over_http(url):
    import urllib.request

    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return [answer.status, answer.read(1000).decode()]
    except urllib.error.HTTPError as error:
        return [error.code, error.read(1000).decode()]
    except OSError as error:
        return [0, str(error)]


def network_beyond_proxy(where):
    return {
        "server": tried(socket.create_connection, tuple(where), 2),
        "udp": tried(socket.socket, socket.AF_INET, socket.SOCK_DGRAM),
        "tcp6": tried(socket.socket, socket.AF_INET6, socket.SOCK_STREAM),
        "raw": tried(socket.socket, socket.AF_INET, socket.SOCK_RAW),
        "vsock": tried(socket.socket, 40, socket.SOCK_STREAM),
        "listen": tried(socket.create_server, ("127.0.0.1", 9999)),
    }


# the kernel


def system_calls(_):
    zero = {name: syscall(name, 0, 0, 0, 0, 0) for name in SYSCALLS if name not in ("clone", "clone3", "setgroups")}
    clone = {f"clone {bit:#x}": syscall("clone", bit | signal.SIGCHLD, 0, 0, 0, 0)
             for bit in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)}  # fmt: skip
    return zero | clone | {
        "clone3": syscall("clone3", 0, 0), "unshare user": syscall("unshare", 0x10000000),
        "ptrace attach 1": syscall("ptrace", 16, 1, 0, 0), "setgroups": syscall("setgroups", 1, 0),
        "high bits": syscall("unshare", 0x10000000 + 2**40), "minus one": syscall(-1),
    }  # fmt: skip


def other_doors(_):
    """32-bit and x32 entries to the same kernel, which a filter that looks at numbers alone would let through."""
    if not X86:
        return {}
    # push rbx; mov eax, 20 (getpid of i386); int 0x80; pop rbx; ret
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\x53\xb8\x14\x00\x00\x00\xcd\x80\x5b\xc3")
    call = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    return {"int 0x80": in_child(call), "x32": syscall(0x40000000 | 39), "x32 unshare": syscall(0x40000000 | 272, 0)}


def settings_of_the_kernel(_):
    paths = [os.path.join(top, name) for top, _, names in os.walk("/proc/sys") for name in names]
    return [path for path in paths if tried(lambda p=path: os.close(os.open(p, os.O_WRONLY))) == "done"]


def write_to_the_kernel(_):
    paths = ["/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/self/oom_score_adj", "/proc/self/uid_map",
             "/proc/self/setgroups", "/proc/kmsg", "/dev/kmsg", "/dev/mem", "/proc/kcore", "/dev/port", "/dev/vsock",
             "/sys/power/state", "/sys/fs/cgroup/cgroup.procs", "/proc/self/attr/current", "/dev/kvm", "/dev/fuse",
             "/proc/irq/default_smp_affinity", "/proc/1/oom_score_adj", "/dev/net/tun"]  # fmt: skip
    return {p: tried(lambda path=p: os.close(os.open(path, os.O_RDWR))) for p in paths}


def set_user_id_programs(_):
    found = [p for folder in ("/usr/bin", "/usr/sbin", "/usr/lib/openssh") for p in glob.glob(f"{folder}/*")
             if os.stat(p).st_mode & (stat.S_ISUID | stat.S_ISGID)]  # fmt: skip
    said = {}
    for command in (["su", "-c", "id -u"], ["mount", "-t", "tmpfs", "x", "/tmp"], ["newuidmap", "1", "0", "0", "1"],
                    ["unshare", "-Ur", "id", "-u"], ["chsh"], ["passwd"]):  # fmt: skip
        try:
            run = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20)
            said[command[0]] = [run.returncode, run.stdout]
        except FileNotFoundError:
            said[command[0]] = [127, ""]
    return {"found": len(found), "said": said, "user": os.geteuid()}


def terminal(_):
    """Put words into a terminal: our own pseudo-terminal, for there is no other."""
    _, slave = os.openpty()
    os.setsid() if os.getpid() != os.getsid(0) else None
    return {
        "TIOCSTI": tried(fcntl.ioctl, slave, 0x5412, b"x"),
        "high bits": syscall(16 if X86 else 29, slave, 0x5412 + 2**32, 0),
        "TIOCLINUX": tried(fcntl.ioctl, slave, 0x541C, b"\3"),
        "/dev/tty": tried(lambda: os.close(os.open("/dev/tty", os.O_RDWR))),
    }


def more_for_me(_):
    said = {}
    for name in ("AS", "NPROC", "NOFILE", "FSIZE", "CORE", "MEMLOCK", "MSGQUEUE", "SIGPENDING", "NICE", "RTPRIO"):
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        try:
            resource.setrlimit(kind, (hard + 1, hard + 1))
            said[name] = "done"
        except (ValueError, OSError) as error:
            said[name] = type(error).__name__
    said["nice"] = tried(os.nice, -10)
    said["fifo"] = tried(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))
    said["kill 1"] = tried(os.kill, 1, signal.SIGKILL)
    said["stop 1"] = tried(os.kill, 1, signal.SIGSTOP)
    said["mlock"] = "done" if LIBC.mlockall(3) == 0 else errno.errorcode[ctypes.get_errno()]
    return said


def signal_pids(pids):
    return {str(pid): tried(os.kill, pid, signal.SIGKILL) for pid in pids}


def signal_everybody(_):
    return tried(os.kill, -1, signal.SIGCONT)


def dumpable(_):
    """Make ourselves readable to others, and dump core."""
    LIBC.prctl(4, 1, 0, 0, 0)

    def crash():
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        os.abort()

    return [in_child(crash), glob.glob("/tmp/core*")]


# too much of everything


def fork_bomb(_):
    children = []
    try:
        while len(children) < 400:
            if (pid := os.fork()) == 0:
                time.sleep(5)
                os._exit(0)
            children.append(pid)
        ended = "done"
    except OSError as error:
        ended = errno.errorcode[error.errno]
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return [len(children), ended]


def thread_bomb(_):
    stop, count = threading.Event(), 0
    try:
        while count < 1000:
            threading.Thread(target=stop.wait, daemon=True).start()
            count += 1
    except RuntimeError:
        pass
    stop.set()
    return count


def one_big_allocation(_):
    return len(bytearray(4 * 2**30))


def many_allocations(megabytes):
    """Each process within its own limit, all of them far above it together."""

    def take():
        held = mmap.mmap(-1, megabytes * 2**20)
        for at in range(0, len(held), 4096):
            held[at] = 1
        time.sleep(20)

    for _ in range(8):
        if os.fork() == 0:
            take()
    for _ in range(8):
        if os.waitstatus_to_exitcode(os.wait()[1]) == -signal.SIGKILL:
            return "killed"
    return "done"


def many_pipes(_):
    """Memory in the kernel: pipes as large as it lets us make them, all full."""
    held = []
    try:
        while len(held) < 4000:
            receiving, sending = os.pipe()
            held += [receiving, sending]
            os.set_blocking(sending, False)
    except OSError as error:
        for descriptor in held:
            os.close(descriptor)
        return [len(held), errno.errorcode[error.errno]]
    return [len(held), "done"]


def leak(megabytes):
    KEPT.append(b"\1" * (megabytes * 2**20))
    return os.getpid()


KEPT: list[bytes] = []


# never answering


def spin(_):
    while True:
        pass


def regular_expression(_):
    """A loop in C that never lets go of the interpreter."""
    return bool(re.match(r"(a+)+$", "a" * 64 + "b"))


def stop_myself(_):
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(60)


def deaf_family(_):
    """Grandchildren in sessions of their own that ignore every signal and keep every descriptor open."""
    for _ in range(4):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
                    signal.signal(number, signal.SIG_IGN)
                while True:
                    time.sleep(1)
            os._exit(0)
    time.sleep(60)


def leave_daemon(_):
    if os.fork() == 0:
        os.setsid()
        while True:
            time.sleep(1)
    return "left"


def flood(descriptor):
    block = b"x" * 2**16
    for _ in range(300 * 16):
        os.write(descriptor, block)
    return "done"


# crashing


def segfault(_):
    ctypes.string_at(0)


def abort(_):
    os.abort()


def leave(_):
    os._exit(0)


def close_everything(_):
    os.closerange(0, 1000)
    time.sleep(60)


# strange results


def give_nan(_):
    return float("nan")


def give_infinity(_):
    return [-float("inf")]


def give_too_large(_):
    return 1e400


def give_deep(_):
    value: list = []
    for _ in range(10_000):
        value = [value]
    return value


def give_bytes(_):
    import pickle

    return pickle.dumps(Pickled())


class Pickled:
    def __reduce__(self):
        return (os.abort, ())


# frames of its own making


def reply_descriptor():
    for descriptor in range(3, 64):
        try:
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode) and fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_WRONLY:
                return descriptor
        except OSError:
            continue
    raise LookupError


def nonce():
    from aliquot.isolation.frames import Call

    return max(o.nonce for o in _everything() if isinstance(o, Call))


def _everything():
    frame = sys._getframe()
    while frame is not None:
        yield from frame.f_locals.values()
        frame = frame.f_back
    yield from gc.get_objects()


def frames(kind):
    from aliquot.isolation.frames import Reply, frame

    data = {
        "huge": lambda: struct.pack(">I", 2**32 - 1),
        "truncated": lambda: frame(Reply(nonce(), items=["forged"]))[:-1],
        "count": lambda: frame(Reply(nonce(), items=[])),
        "nonce": lambda: frame(Reply(1, items=["forged"])),
        "two": lambda: 2 * frame(Reply(nonce(), items=["forged"])),
        "garbage": lambda: struct.pack(">I", 64) + os.urandom(64),
        "not a reply": lambda: struct.pack(">I", 1) + b"\x93",
        "bomb": lambda: _bomb(nonce()),
    }[kind]()
    os.set_blocking(reply_descriptor(), True)
    view = memoryview(data)
    while view:
        view = view[os.write(reply_descriptor(), view) :]
    time.sleep(0.2 if kind == "two" else 60)
    return "honest"


def _bomb(number):
    """Eight million empty lists in one reply: eight megabytes here, half a gigabyte when they are decoded."""
    count = 8 * 2**20 - 100
    inner = b"\x91" + b"\xdd" + struct.pack(">I", count) + b"\x90" * count
    payload = b"\x82\xa5nonce\xcf" + struct.pack(">Q", number) + b"\xa5items" + inner
    return struct.pack(">I", len(payload)) + payload


def answer_later(_):
    """Answer the next request before it is asked."""
    from aliquot.isolation.frames import Reply, frame

    def forge():
        time.sleep(0.1)
        os.write(reply_descriptor(), frame(Reply(nonce(), items=["forged"])))

    threading.Thread(target=forge, daemon=True).start()
    return "honest"


def remember(item):
    """Count calls in every place where something might stay: the module, files, another process."""
    KEPT.append(b"")
    with open("/tmp/kept", "ab") as file:
        file.write(b"x")
    with open("/dev/shm/kept", "ab") as file:
        file.write(b"x")
    others = sum(alive(process) for process in others_in_sight(None))
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
    above = tried(os.open, f"/proc/{os.getppid()}/mem", os.O_RDWR)
    return [len(KEPT), os.path.getsize("/tmp/kept"), os.path.getsize("/dev/shm/kept"), others, above]


def identity(item):
    return item


def factory(argument):
    def attack(items):
        for name, value in items:
            yield globals()[name](value)

    return {"attack": attack, "identity": lambda items: items}
