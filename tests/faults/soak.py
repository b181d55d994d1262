"""`python -m tests.faults.soak --minutes N`: mixed traffic; drift of throughput, slope of memory, errors."""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2
import numpy as np

from tests.faults.traffic import Account, client
from tests.server.process import answers, free_port
from tests.server.stand import wait_until

SAMPLES = 24


@dataclass(frozen=True)
class Sample:
    """The server at one moment."""

    seconds: float
    mib: float
    """Memory of its process."""
    answered: int
    """Requests so far."""


def slope(samples: Sequence[Sample]) -> float:
    """MiB a minute of the line through the second half, after caches have filled."""
    late = samples[len(samples) // 2 :]
    minutes = [sample.seconds / 60 for sample in late]
    return float(np.polyfit(minutes, [sample.mib for sample in late], 1)[0])


def drift(samples: Sequence[Sample]) -> float:
    """Answers a second of the last third against the second third, as a fraction more or less."""
    third = len(samples) // 3
    rates = [
        (samples[stop].answered - samples[start].answered) / (samples[stop].seconds - samples[start].seconds)
        for start, stop in ((third, 2 * third), (2 * third, len(samples) - 1))
    ]
    return rates[1] / rates[0] - 1


def memory_mib(pid: int) -> float:
    """Resident memory, as the system tells."""
    told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return int(told.stdout) / 1024


async def soaked(port: int, pid: int, seconds: float, clients: int, account: Account) -> list[Sample]:
    """Traffic, and a sample now and then."""
    clock = asyncio.get_running_loop().time
    began = clock()
    traffic = [asyncio.create_task(client(port, seed, began + seconds, account)) for seed in range(clients)]
    samples = []
    for number in range(SAMPLES + 1):
        await asyncio.sleep(max(0.0, began + number * seconds / SAMPLES - clock()))
        samples.append(Sample(clock() - began, await asyncio.to_thread(memory_mib, pid), account.answered))
        print(f"{samples[-1].seconds:7.0f} s {samples[-1].mib:9.1f} MiB {account.answered:7} answers", flush=True)
    await asyncio.gather(*traffic)
    return samples


def report(samples: Sequence[Sample], account: Account, left: dict[str, object]) -> list[str]:
    """The figures, and every fault by name."""
    lines = [
        f"{'requests':28}{sum(account.tried.values())}, {dict(account.tried)}",
        f"{'ends':28}{dict(account.ends)}",
        f"{'answers a second':28}{account.answered / samples[-1].seconds:.2f}",
        f"{'drift of throughput':28}{drift(samples):+.1%}",
        f"{'slope of memory':28}{slope(samples):+.2f} MiB a minute, at {samples[-1].mib:.0f} MiB",
        f"{'running and waiting after':28}{left['running']}, {left['waiting']}",
        f"{'faults':28}{len(account.faults)}",
    ]
    return [*lines, *account.faults[:20]]


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status is 1 where a request was lost or hung, failed by a fault of ours, or said something else."""
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
    if chosen.json is not None:
        figures = {"minutes": chosen.minutes, "drift": drift(samples), "mib_a_minute": slope(samples)}
        counts = {"tried": account.tried, "ends": account.ends, "faults": account.faults}
        chosen.json.write_text(json.dumps(figures | counts, indent=2) + "\n")
    return 1 if account.faults else 0


if __name__ == "__main__":
    sys.exit(main())
