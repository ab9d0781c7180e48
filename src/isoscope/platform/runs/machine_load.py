"""Record how busy the machine is while a run works: CPU, memory, GPUs, under the names that MLflow shows in a tab."""

import math
import subprocess
import threading
from contextlib import suppress

from isoscope.platform.runs.record import Record

FIRST, EVERY = 60.0, 10.0
PREFIX = "system/"
_QUERY = ("index", "utilization.gpu", "memory.used", "memory.total", "power.draw")


class LoadSampler:
    """Writes `system/…` metrics of the whole machine to a run's record, from a thread, until `stop`.

    The first sample comes after `first` seconds, so shorter runs have none, and is the mean load until then. The
    others follow `every` seconds and are means since the sample before. The step counts samples; a resumed run
    continues the count. `gpus`: ask `nvidia-smi` too. The thread draws no random number and calls no function of torch.
    """

    def __init__(self, record: Record, *, gpus: bool, first: float = FIRST, every: float = EVERY) -> None:
        self.record, self.gpus, self.first, self.every = record, gpus, first, every
        known = [point.step for point in record.before.metrics if point.name.startswith(PREFIX)]
        self._step = max(known, default=-1) + 1
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="machine load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; afterwards it writes nothing."""
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        import psutil

        psutil.cpu_percent()  # the load is counted from here
        wait = self.first
        while not self._stop.wait(wait):
            wait = self.every
            memory = psutil.virtual_memory()
            values = {
                "cpu_utilization_percentage": psutil.cpu_percent(),
                "system_memory_usage_megabytes": memory.used / 1e6,
                "system_memory_usage_percentage": 100 * memory.used / memory.total,
            }
            if self.gpus:
                values |= gpu_load()
            for name, value in values.items():
                self.record.metric(f"{PREFIX}{name}", round(value, 1), step=self._step)
            self._step += 1


def gpu_load() -> dict[str, float]:
    """Return use, memory and power of each NVIDIA GPU, under MLflow's names; what is not known is missing."""
    command = ("nvidia-smi", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits")
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=EVERY).stdout
        return {name: value for line in text.splitlines() for name, value in _parse(line).items()}
    return {}


def _parse(line: str) -> dict[str, float]:
    """Return the values of a line of `nvidia-smi`; memory is in MiB there, and in MB in MLflow."""
    texts = line.split(", ")
    if len(texts) != len(_QUERY):  # "No devices were found"
        return {}
    index, utilization, used, whole, power = (math.nan if text.startswith("[") else float(text) for text in texts)
    values = {
        "utilization_percentage": utilization,
        "memory_usage_megabytes": used * 2**20 / 1e6,
        "memory_usage_percentage": 100 * used / (whole or math.nan),
        "power_usage_watts": power,
    }
    return {f"gpu_{index:.0f}_{name}": value for name, value in values.items() if not math.isnan(value)}
