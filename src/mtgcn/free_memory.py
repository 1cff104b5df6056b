"""How much memory may still be taken, and refusing what would take more: the system itself ends a program for that,
without a word."""

from __future__ import annotations

from pathlib import Path

from mtgcn.errors import InputError

NOBODY_KNOWS = 2**63  # bytes; where the system does not tell, it will say itself when there is no more


def free_bytes() -> int:
    """What this process may still take: of the machine and, in a container or under a limit, of what it was given."""
    limits = [_machine_free(), _container_free(), _process_free()]
    return min((limit for limit in limits if limit is not None), default=NOBODY_KNOWS)


def check_fits(needed: int, what: str, remedy: str) -> None:
    """Refuse what takes more memory than is free, before the first byte of it is taken."""
    free = free_bytes()
    if needed > free:
        raise InputError(f"{what} takes about {readable(needed)} and {readable(free)} of memory are free; {remedy}")


def resident_bytes() -> int:
    """What this process has taken already; 0 where the system does not tell."""
    try:
        import resource  # not on Windows

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (ImportError, OSError):
        return 0
    return pages * resource.getpagesize()


def readable(size: int) -> str:
    """Bytes as people say them.

    >>> readable(3 * 2**30), readable(1000)
    ('3.0 GiB', '1 MiB')
    """
    if size >= NOBODY_KNOWS:
        return "more memory than any machine has"
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{max(1, round(size / 2**20))} MiB"


def _machine_free() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:  # not Linux
        return None
    fields = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    return int(fields["MemAvailable"][0]) * 1024 if "MemAvailable" in fields else None


def _container_free() -> int | None:
    folder = Path("/sys/fs/cgroup")
    try:
        limit, used = ((folder / name).read_text(encoding="ascii").strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return None
    return None if limit == "max" else int(limit) - int(used)


def _process_free() -> int | None:
    try:
        import resource  # not on Windows

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ImportError, OSError):
        return None
    return None if limit == resource.RLIM_INFINITY else limit - pages * resource.getpagesize()
