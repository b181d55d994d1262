"""`python -m tests.faults.soak --minutes N`: mixed traffic; drift of throughput, slope of memory, errors."""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx2
import numpy as np

from tests.faults.traffic import Account, client
from tests.server.process import answers, free_port
from tests.server.stand import wait_until

SAMPLES = 24
ENOUGH = 200
"""Answers in each third from which on drift and growth are judged; of fewer, the mix itself is the difference."""
MOST_SLOWER = 0.25
"""What an answer may cost more in the last third than in the second: the mix alone makes out a tenth."""
MOST_GROWTH = 32.0
"""KiB an answer by which memory may still grow in the second half: a fraction of what any answer's caches take."""


@dataclass(frozen=True)
class Sample:
    """The server at one moment."""

    seconds: float
    cpu: float
    """Seconds of processors that its process has used: what else runs on the machine does not count."""
    mib: float
    """Memory of its process."""
    kept: float
    """MiB of that for earlier prompts, as the server tells: it fills on purpose, up to `--prefix-cache-gib`."""
    answered: int
    """Requests so far."""


def slope(samples: Sequence[Sample]) -> float:
    """MiB a minute of the line through the second half, apart from what is kept of earlier prompts."""
    return _line(samples, lambda sample: sample.seconds / 60)


def growth(samples: Sequence[Sample]) -> float:
    """KiB an answer of the same line: however fast the machine is."""
    return 1024 * _line(samples, lambda sample: float(sample.answered))


def _line(samples: Sequence[Sample], along: Callable[[Sample], float]) -> float:
    late = samples[len(samples) // 2 :]
    return float(np.polyfit([along(sample) for sample in late], [sample.mib - sample.kept for sample in late], 1)[0])


def drift(samples: Sequence[Sample], spent: Callable[[Sample], float]) -> float:
    """Answers for what was spent, in the last third against the second third, as a fraction more or less."""
    third = len(samples) // 3
    rates = [
        (samples[stop].answered - samples[start].answered) / (spent(samples[stop]) - spent(samples[start]))
        for start, stop in ((third, 2 * third), (2 * third, len(samples) - 1))
    ]
    return rates[1] / rates[0] - 1


def enough(samples: Sequence[Sample]) -> bool:
    """Whether there were answers enough after the warm-up to tell what a change is and what the mix."""
    third = len(samples) // 3
    early, late, end = (samples[place].answered for place in (third, 2 * third, -1))
    return min(late - early, end - late) >= ENOUGH


def missed(samples: Sequence[Sample]) -> list[str]:
    """What went on getting slower or larger after the warm-up, where there were answers enough to tell."""
    slower, grown = drift(samples, lambda sample: sample.cpu), growth(samples)
    told = (
        (slower < -MOST_SLOWER, f"an answer costs more and more: {slower:+.1%} for the same work"),
        (grown > MOST_GROWTH, f"memory grows by {grown:.1f} KiB an answer"),
    )
    return [fault for holds, fault in told if holds] if enough(samples) else []


def used(pid: int) -> tuple[float, float]:
    """Seconds of processors and MiB of memory, as the system tells."""
    words = ["ps", "-o", "time=", "-o", "rss=", "-p", str(pid)]
    told, rss = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    return seconds_of(told), int(rss) / 1024


def kept(port: int) -> float:
    """MiB that the server says it keeps of earlier prompts."""
    lines = httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("laguna_prefix_cache_bytes ")) / 2**20


def seconds_of(told: str) -> float:
    """`[[days-]hours:]minutes:seconds`, the form of `ps`."""
    days, _, clock = told.rpartition("-")
    parts = [float(part) for part in clock.split(":")]
    return 86_400 * int(days or 0) + sum(part * 60**place for place, part in enumerate(reversed(parts)))


async def soaked(port: int, pid: int, seconds: float, clients: int, account: Account) -> list[Sample]:
    """Traffic, and a sample now and then."""
    clock = asyncio.get_running_loop().time
    began = clock()
    traffic = [asyncio.create_task(client(port, seed, began + seconds, account)) for seed in range(clients)]
    samples = []
    for number in range(SAMPLES + 1):
        await asyncio.sleep(max(0.0, began + number * seconds / SAMPLES - clock()))
        (cpu, mib), held = await asyncio.to_thread(used, pid), await asyncio.to_thread(kept, port)
        samples.append(Sample(clock() - began, cpu, mib, held, account.answered))
        told = f"{samples[-1].seconds:7.0f} s {cpu:7.0f} s CPU {mib:9.1f} MiB, {held:6.1f} kept"
        print(f"{told} {account.answered:7} answers", flush=True)
    await asyncio.gather(*traffic)
    return samples


def report(samples: Sequence[Sample], account: Account, left: dict[str, object]) -> list[str]:
    """The figures, and every fault by name."""
    wall, cpu = (drift(samples, spent) for spent in (lambda sample: sample.seconds, lambda sample: sample.cpu))
    faults = [*account.faults, *missed(samples)]
    lines = [
        f"{'requests':28}{sum(account.tried.values())}, {dict(account.tried)}",
        f"{'ends':28}{dict(account.ends)}",
        f"{'answers a second':28}{account.answered / samples[-1].seconds:.2f}",
        f"{'drift of throughput':28}{wall:+.1%} by the clock, {cpu:+.1%} by the time of processors",
        f"{'slope of memory':28}{slope(samples):+.2f} MiB a minute, {growth(samples):+.1f} KiB an answer",
        f"{'memory':28}{samples[-1].mib:.0f} MiB at the end, {samples[-1].kept:.0f} of them kept of earlier prompts",
        f"{'judged':28}{'both' if enough(samples) else f'neither: fewer than {ENOUGH} answers in a third'}",
        f"{'running and waiting after':28}{left['running']}, {left['waiting']}",
        f"{'faults':28}{len(faults)}",
    ]
    return [*lines, *faults[:20]]


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status is 1 where a request was lost or hung, failed by a fault of ours, or said something else.

    And where the server went on getting slower or larger, by more than is told above.
    """
    options = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--clients", type=int, default=6)
    options.add_argument("--json", type=Path, help="write all figures to this file")
    chosen, flags = options.parse_known_args(arguments)
    port, account = free_port(), Account()
    words = [sys.executable, "-m", "server", "serve", "--port", str(port), "--log-level", "error", *flags]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            wait_until(lambda: answers(http) or process.poll() is not None)
            samples = asyncio.run(soaked(port, process.pid, chosen.minutes * 60, chosen.clients, account))
            wait_until(lambda: http.get("/health").json()["running"] == 0)
            left = http.get("/health").json()
    finally:
        process.terminate()
        process.wait(30)
    print("\n".join(report(samples, account, left)))
    faults = [*account.faults, *missed(samples)]
    if chosen.json is not None:
        figures = {"samples": [asdict(sample) for sample in samples], "mib_a_minute": slope(samples)}
        counts = {"tried": account.tried, "ends": account.ends, "faults": faults}
        chosen.json.write_text(json.dumps(figures | counts, indent=2) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
