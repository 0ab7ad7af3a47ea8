"""A recorder in the place of gem5: runs an exported script and gives what config.json would hold of it.

Only what the scripts use is there. Objects record their parameters, ports record their other ends; simulating only
counts. gem5 itself resolves classes to types and texts to numbers, which is repeated here for those that matter.
"""

from __future__ import annotations

import re
import sys
import tempfile
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uarch.constraints import dram_models
from uarch.gem5.table import UNITS

TYPES = {
    **{
        f"{isa}{kind}CPU": f"Base{kind}CPU"
        for isa in ("X86", "Arm", "Riscv")
        for kind in ("O3", "Minor", "AtomicSimple")
    },
    "L2XBar": "CoherentXBar",
    "SystemXBar": "CoherentXBar",
    **dict.fromkeys(dram_models(), "DRAMInterface"),
}
REQUESTORS = ("icache_port", "dcache_port", "mem_side", "mem_side_ports", "system_port")
SCALES = {"ps": 1, "ns": 1000, "KiB": 1024, "GiB": 2**30}


@dataclass(frozen=True)
class Version:
    """A version of gem5 as a script sees it: classes that it lacks, and the operations that it has."""

    lacks: frozenset[str]
    operations: frozenset[str]


TARGETS, PARTS = {"SimpleBTB", "ReturnAddrStack"}, {"ConditionalPredictor", "IQUnit"}
OPERATIONS = {
    name for units in UNITS.values() for unit in units for one in unit.operations for name in one.classes.split()
}
IN_V23 = {name for name in OPERATIONS if name.startswith("Vector")}
IN_V24 = {
    name for name in OPERATIONS if re.match("Simd(UnitStride|Strided|Indexed|WholeRegister|Ext|FloatExt|Config)", name)
}
VERSIONS = {
    "v23.0": Version(frozenset(TARGETS | PARTS), frozenset(OPERATIONS - IN_V24)),
    "v23.1": Version(frozenset(PARTS), frozenset(OPERATIONS - IN_V24)),
    "v24": Version(frozenset(PARTS), frozenset(OPERATIONS - IN_V23)),
    "v25": Version(frozenset(), frozenset(OPERATIONS - IN_V23)),
}


class Port:
    def __init__(self, owner: SimObject, name: str) -> None:
        self.owner, self.name = owner, name

    def join(self, other: Port) -> None:
        for one, peer in ((self, other), (other, self)):
            one.owner.ports.setdefault(one.name, []).append(peer)


class SimObject:
    def __init__(self, **parameters: Any) -> None:
        self.__dict__.update(parameters={}, ports={}, parent=None, name="")
        for name, value in parameters.items():
            setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in self.parameters:
            return self.parameters[name]
        if name.startswith("__"):
            raise AttributeError(name)
        return Port(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Port):
            Port(self, name).join(value)
            return
        self.parameters[name] = value
        items = value if isinstance(value, list) else [value]
        for place, item in enumerate(items):
            if isinstance(item, SimObject) and item.parent is None:
                item.__dict__.update(parent=self, name=f"{name}{place}" if isinstance(value, list) else name)

    # What the scripts call
    memory_mode = classmethod(lambda cls: "atomic" if "Atomic" in cls.__name__ else "timing")

    def createThreads(self) -> None:
        if "isa" not in self.parameters:
            isa = re.match("X86|Arm|Riscv", type(self).__name__)[0]
            self.isa = [new(f"{isa}ISA")()]

    def createInterruptController(self) -> None:
        self.interrupts = [new("Interrupts")()]

    def scheduleInstStop(self, thread: int, instructions: int, cause: str) -> None:
        self.parameters["stop"] = (instructions, cause)

    def totalInsts(self) -> int:
        return 0

    # What config.json holds
    def path(self) -> str:
        if self.parent is None:
            return "root"
        return self.name if type(self.parent).__name__ == "Root" else f"{self.parent.path()}.{self.name}"

    def document(self) -> dict[str, Any]:
        kind = type(self).__name__
        values: dict[str, Any] = {"type": TYPES.get(kind, kind), "path": self.path()}
        if kind in dram_models():
            values |= dram_parameters(kind)
        if kind == "SrcClockDomain":
            self.parameters["clock"] = [self.parameters["clock"]]
        for name, value in self.parameters.items():
            values[name] = self._value(value)
            if kind == "SimpleMemory" and name == "bandwidth":
                values[name] = f"{int(1e12 / number(value) + 0.5)}.000000"
        if kind.endswith("CPU"):
            values.setdefault("clk_domain", "system.clk_domain")
        for name, peers in self.ports.items():
            role = "GEM5 REQUESTOR" if name in REQUESTORS else "GEM5 RESPONDER"
            ends = [f"{peer.owner.path()}.{peer.name}[0]" for peer in peers]
            values[name] = {"role": role, "peer": ends if name.endswith("_ports") else ends[0]}
        return values

    def _value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, SimObject):
            return value.document() if value.parent is self else value.path()
        if isinstance(value, str) and re.fullmatch(r"[\d.]+(ps|ns|KiB|GiB/s)", value):
            return int(number(value)) if number(value) == int(number(value)) else number(value)
        return value


def number(text: str) -> float:
    """The number of a text with a unit, in ps or bytes."""
    digits, unit = re.fullmatch(r"([\d.]+)(\w+)(?:/s)?", text).groups()
    return round(float(digits) * SCALES[unit], 6)


def dram_parameters(name: str) -> dict[str, Any]:
    """A DRAM class's parameters, from our own table of its timings."""
    model = dram_models()[name]
    devices, width = (int(part) for part in re.search(r"_(\d+)x(\d+)", name).groups())
    ticks = {
        "tBURST": "t_burst",
        "tCCD_L": "t_ccd_long",
        "tCL": "t_cl",
        "tRCD": "t_rcd",
        "tRP": "t_rp",
        "tRAS": "t_ras",
    }
    return {
        **{theirs: round(model[ours] * 1000) for theirs, ours in (ticks | {"tWR": "t_wr"}).items()},
        "devices_per_rank": devices,
        "device_bus_width": width,
        "burst_length": int(model["burst_bytes"] * 8 / devices / width),
        "ranks_per_channel": model["ranks"],
        "banks_per_rank": model["banks"],
        "device_rowbuffer_size": model["row_bytes"] // devices,
    }


def new(name: str) -> type[SimObject]:
    return type(name, (SimObject,), {})


class Simulator:
    """The module `m5`: keeps the root, and the phases that were run."""

    def __init__(self) -> None:
        self.phases: list[Any] = []
        self.root: SimObject | None = None
        self.stats = types.SimpleNamespace(
            reset=lambda: self.phases.append("reset"), dump=lambda: self.phases.append("dump")
        )
        self.ticks = 0

    def instantiate(self) -> None:
        self.phases.append("instantiate")

    def drain(self) -> None:
        self.phases.append("drain")

    def curTick(self) -> int:
        return self.ticks

    def switchCpus(self, system: SimObject, pairs: list[tuple[SimObject, SimObject]]) -> None:
        self.phases += [f"{old.path()} to {fresh.path()}" for old, fresh in pairs]

    def simulate(self) -> Any:
        self.ticks += 1_000_000
        for cpu in (self.root.system.parameters.get("fast_cpu"), self.root.system.cpu):
            if cpu is not None and (stop := cpu.parameters.pop("stop", None)):
                self.phases.append(stop)
                return types.SimpleNamespace(getCause=lambda: stop[1], getCode=lambda: 0)
        self.phases.append("end")
        return types.SimpleNamespace(getCause=lambda: "exiting with last active thread context", getCode=lambda: 0)


class Flag:
    """A debug flag; the phases of the run tell when it is turned off and on."""

    def __init__(self, name: str, phases: list[Any], tracing: bool) -> None:
        self.name, self.phases, self.tracing = name, phases, tracing

    def enable(self) -> None:
        self.phases.append(f"{self.name} on")

    def disable(self) -> None:
        self.phases.append(f"{self.name} off")


def run_script(
    text: str,
    arguments: list[str],
    *,
    flags: tuple[str, ...] = (),
    outdir: Path | None = None,
    version: Version = VERSIONS["v24"],
) -> tuple[dict[str, Any], list[Any]]:
    """Execute a script as that version of gem5 would, with debug `flags` given and `run.json` written into `outdir`.
    Returns the configuration's document and the phases of the run.
    """
    with tempfile.TemporaryDirectory() as folder:
        simulator = _run(text, arguments, flags, str(outdir or folder), version)
    assert simulator.root is not None
    return simulator.root.document(), simulator.phases


def run_root(text: str, arguments: list[str], version: Version) -> SimObject:
    """The root object that a script makes."""
    with tempfile.TemporaryDirectory() as folder:
        root = _run(text, arguments, (), folder, version).root
    assert root is not None
    return root


def _run(text: str, arguments: list[str], flags: tuple[str, ...], outdir: str, version: Version) -> Simulator:
    simulator, objects = Simulator(), types.ModuleType("m5.objects")
    root = new("Root")

    def make_root(**parameters: Any) -> SimObject:
        simulator.root = root(**parameters)
        return simulator.root

    workload = types.SimpleNamespace(init_compatible=lambda program: new("Workload")(program=program))
    known = {"Root": make_root, "SEWorkload": workload, "AddrRange": lambda size: size}
    known |= {"X86MMU": new("X86MMU"), "OpClass": types.SimpleNamespace(vals=version.operations)}

    def find(name: str) -> Any:
        if name in version.lacks:
            raise AttributeError(name)
        return known.get(name) or new(name)

    objects.__getattr__ = find
    m5 = types.ModuleType("m5")
    m5.__dict__.update(
        {name: getattr(simulator, name) for name in ("instantiate", "curTick", "switchCpus", "simulate", "drain")}
    )
    known_flags = {name: Flag(name, simulator.phases, name in flags) for name in ("ExecEnable", "O3PipeView")}
    m5.__dict__.update(
        objects=objects,
        stats=simulator.stats,
        core=types.SimpleNamespace(setInterpDir=lambda folder: simulator.phases.append(f"loader below {folder}")),
        options=types.SimpleNamespace(outdir=outdir),
        debug=types.SimpleNamespace(flags=known_flags),
    )
    kept = {name: sys.modules.get(name) for name in ("m5", "m5.objects")}, sys.argv
    sys.modules |= {"m5": m5, "m5.objects": objects}
    sys.argv = ["machine.py", *arguments]
    connect = lambda self, *ports: None  # noqa: E731
    Port.connectWalkerPorts = connect
    try:
        exec(compile(text, "machine.py", "exec"), {"__name__": "__m5_main__"})
    finally:
        sys.argv = kept[1]
        for name, module in kept[0].items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
    return simulator
