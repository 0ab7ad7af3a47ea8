"""A machine read from the `config.json` that gem5 writes into the output folder of every run.

What `table` says a field sets is read back. Everything that a machine cannot say, or gem5 does not say, is a note: one
line that names the parameter and what is assumed instead. The caches are found by following the core's ports, so
scripts of any layout can be read, as long as they have one O3 or Minor core, classic caches and two or three levels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.errors import InputError
from support.text import show
from uarch.configuration import Machine, field_names, get_field, machine_from_dict
from uarch.constraints import LRU, NO_PREDICTOR, RULES, dram_models
from uarch.gem5.objects import Configuration
from uarch.gem5.simulated import as_read_back
from uarch.gem5.table import (
    CACHE,
    CACHE_DEFAULT,
    CACHE_SET,
    CONTROLLER_DEFAULT,
    CORE,
    CORE_DEFAULT,
    CORE_SET,
    CORE_TYPES,
    DIRECTION_PART,
    INDIRECT_DEFAULT,
    INDIRECT_PART,
    ISAS,
    ISSUE_QUEUE,
    L2_BUS_DEFAULT,
    LOOP_DEFAULT,
    LOOP_PART,
    PREDICTOR_DEFAULT,
    PREDICTOR_PARTS,
    PREDICTORS,
    PREFETCHER_DEFAULT,
    PREFETCHERS,
    QUEUE_PART,
    REPLACEMENT_DEFAULT,
    REPLACEMENT_POLICIES,
    SIMPLE_MEMORY_DEFAULT,
    SYSTEM_BUS_DEFAULT,
    TAGE_DEFAULT,
    TLB_ENTRIES,
    UNITS,
    Unit,
    bandwidth_gbs,
    frequency_ghz,
    response_latency,
)

_CACHES = ("Cache", "NoncoherentCache")
_MEMORIES = ("SimpleMemory", "MemCtrl", "HBMCtrl", "HeteroMemCtrl", "DRAMsim3", "DRAMSim2")


def import_config(
    path: str | Path, *, name: str | None = None, base: Machine | None = None
) -> tuple[Machine, list[str]]:
    """The machine of a run's `config.json`, and the notes. `name` is the machine's name, by default `base`'s or that of
    the file's folder. Where gem5 cannot tell a value from `base`'s (as the entries of a predictor that has one size),
    `base`'s is taken. Raises InputError.
    """
    path = Path(path)
    document = read_config(path)
    folder = path.resolve().parent.name or "gem5"
    try:
        return machine_from_config(document, name or (base.name if base is not None else folder), base)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def read_config(path: Path) -> Any:
    """The parsed `config.json`. Raises InputError."""
    try:
        text = path.read_text()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise InputError(f"cannot read {path}: {reason}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        what = " ".join(str(error).split())
        raise InputError(f"{path} is not JSON ({what}); give the config.json of a gem5 output folder") from None


@dataclass(frozen=True)
class RunSettings:
    """The rest of a configuration: the run, without the machine."""

    isa: str
    core: str  # path of the core that is timed
    kind: str  # out-of-order or in-order
    fast_core: str | None  # path of the core that fast-forwards
    period: int  # of the timed core's clock, in ticks
    process: Mapping[str, Any]  # parameters of the simulated process
    commit_ticks: bool  # whether Minor's Exec lines tell the tick of the commit


def simulation_from_config(document: Any) -> RunSettings:
    """The cores and the process of a parsed `config.json` in syscall emulation. Raises InputError."""
    reader = _Reader(document)
    cpu, first = reader._cpus()
    process = reader.part(first, "workload") or reader.part(cpu, "workload")
    if process is None or process.get("type") != "Process":
        raise InputError(f"{first['path']}.workload is no Process; runs in syscall emulation have one")
    return RunSettings(
        isa=reader._isa(cpu if reader.part(cpu, "isa") else first),
        core=cpu["path"],
        kind=CORE_TYPES[cpu["type"]],
        fast_core=first["path"] if first is not cpu else None,
        period=reader._period(cpu),
        process=process,
        commit_ticks=cpu.get("executeSetTraceTimeOnCommit", True) is True,
    )


def machine_from_config(document: Any, name: str, base: Machine | None = None) -> tuple[Machine, list[str]]:
    """Import as `import_config`, from the parsed JSON. Raises InputError."""
    reader = _Reader(document)
    values = reader.machine(name)
    machine = machine_from_dict(values)
    if base is not None:
        machine = _with_unseen(machine, base, reader)
    return machine, reader.notes


def _with_unseen(machine: Machine, base: Machine, reader: _Reader) -> Machine:
    """`machine` with the fields of `base` that gem5 could not tell from what it ran."""
    if base.core != machine.core:
        raise InputError(f"core = {machine.core}, but the base machine {base.name} is {base.core}")
    seen = as_read_back(base, reader.isa)
    values = machine.to_dict()
    for field in field_names(base):
        if field == "name" or field not in field_names(machine) or field not in field_names(seen):
            continue
        own = get_field(base, field)
        if get_field(machine, field) == get_field(seen, field) != own:
            reader.notes = [note for note in reader.notes if not note.startswith(f"{field} ")]
            reader.note(f"{field} = {own}", f"taken from {base.name}; gem5 cannot tell")
            section, _, last = field.rpartition(".")
            (values[section] if section else values)[last] = own
    step, field = base.functional_units.div_step_latency, "functional_units.div_latency"
    if step is not None and get_field(machine, field) == get_field(seen, field):
        values["functional_units"]["div_step_latency"] = step
        reader.note(f"functional_units.div_step_latency = {step}", f"taken from {base.name}; gem5 cannot tell")
    if values["branch_predictor"]["kind"] != "none":
        reader.notes = [note for note in reader.notes if not note.startswith("branch_predictor = none")]
    return machine_from_dict(values)


class _Reader(Configuration):
    """Fields of a machine from the objects of a configuration."""

    isa = "x86-64"
    _core_period = 0  # ps

    def machine(self, name: str) -> dict[str, Any]:
        """The nested mapping of a machine's fields, bounded as fields are."""
        for path, item in sorted(self.objects.items()):
            if item["type"].startswith("Ruby"):
                raise InputError(f"{path} is a {item['type']}: only classic caches can be read, not Ruby")
        cpu, ports = self._cpus()
        core = CORE_TYPES[cpu["type"]]
        self.isa = self._isa(cpu)
        found: dict[str, list[tuple[str, float]]] = {}
        self._core(cpu, core, found)
        self._units(cpu, core, found)
        values: dict[str, Any] = {"name": name, "core": core, "frequency_ghz": self._frequency(cpu)}
        values |= {"pipeline": {}, "functional_units": {}}
        for field, sources in found.items():
            section, _, last = field.partition(".")
            rules = core if section == "pipeline" else section
            values[section][last] = self._least(field, f"{rules}.{last}", sources)
        self._relations(values)
        values["branch_predictor"] = self._predictor(cpu, core)
        self._core_period = self._period(cpu)
        values |= self._caches(ports)
        for part in ("itb", "dtb"):
            tlb = self.part(self.part(cpu, "mmu"), part)
            if tlb is not None and tlb.get("size", TLB_ENTRIES) != TLB_ENTRIES:
                self.note(f"{tlb.get('path')}.size = {tlb['size']}", f"no field says it; {TLB_ENTRIES} assumed")
        system = next((item for item in self.objects.values() if item["type"] == "System"), {})
        if system.get("cache_line_size", 64) != 64:
            self.note(f"cache_line_size = {system['cache_line_size']}", "no field says it; 64 bytes assumed")
        return values

    # Fields

    def _bounded(self, field: str, rule_name: str, value: float, source: str) -> int:
        """`value` as a field may hold it."""
        rule = RULES[rule_name]
        bounded = int(min(max(value, rule.low), rule.high))
        if bounded != value:
            self.note(f"{field} = {bounded}", f"assumed for {source}, which is no {rule.describe().removeprefix('a ')}")
        return bounded

    def _least(self, field: str, rule_name: str, sources: list[tuple[str, float]]) -> int:
        source, value = min(sources, key=lambda pair: pair[1])
        if any(other != value for _, other in sources):
            self.note(f"{field} = {value:g}", "the least of " + ", ".join(f"{text} ({v:g})" for text, v in sources))
        return self._bounded(field, rule_name, value, source)

    def _defaults(self, item: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
        for name, value in expected.items():
            if name in item and item[name] != value:
                self.note(f"{item.get('path')}.{name} = {show(item[name])}", f"no field says it; {value} assumed")

    # The core

    def _cpus(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """The detailed core, and the core that has the cache ports when the run starts."""
        cpus = {path: item for path, item in sorted(self.objects.items()) if "icache_port" in item or "isa" in item}
        cpus = {path: item for path, item in cpus.items() if item["type"].endswith("CPU")}
        detailed = {path: item for path, item in cpus.items() if item["type"] in CORE_TYPES}
        if not detailed:
            others = ", ".join(f"{path} is {item['type']}" for path, item in cpus.items()) or "it has no core at all"
            raise InputError(f"no O3 or Minor core ({others}); a machine is read from a run with one")
        if len(detailed) > 1:
            raise InputError(f"{len(detailed)} detailed cores ({', '.join(detailed)}); a machine has one")
        cpu = next(iter(detailed.values()))
        for item in (cpu, *cpus.values()):
            if self.peers(item, "icache_port") and self.peers(item, "dcache_port"):
                return cpu, item
        raise InputError(f"{cpu['path']}.icache_port and dcache_port lead nowhere; a machine needs l1i and l1d")

    def _isa(self, cpu: Mapping[str, Any]) -> str:
        kind = (self.part(cpu, "isa") or {}).get("type")
        for name, isa in ISAS.items():
            if kind == isa.type:
                return name
        valid = ", ".join(isa.type for isa in ISAS.values())
        raise InputError(f"{cpu['path']}.isa = {show(kind)} must be one of {valid}")

    def _core(self, cpu: Mapping[str, Any], core: str, found: dict[str, list[tuple[str, float]]]) -> None:
        for parameter in CORE[core]:
            if parameter.isa in (None, self.isa):
                for name in parameter.names:
                    value = (self._core_value(cpu, name) - parameter.plus) / parameter.times
                    found.setdefault(parameter.field, []).append((f"{cpu['path']}.{name}", value))
        self._defaults(cpu, CORE_SET[core] | CORE_DEFAULT[core])
        if core == "out-of-order":
            self._defaults(cpu, {"needsTSO": ISAS[self.isa].total_store_order})

    def _core_value(self, cpu: Mapping[str, Any], name: str) -> int:
        """A parameter of the core. v25's queues of instructions are objects, whose entries are added up."""
        queues = self.parts(cpu, QUEUE_PART[0]) if name in ISSUE_QUEUE.names and name not in cpu else []
        return sum(self.whole(queue, QUEUE_PART[2]) for queue in queues) if queues else self.whole(cpu, name)

    def _units(self, cpu: Mapping[str, Any], core: str, found: dict[str, list[tuple[str, float]]]) -> None:
        given = list(self._given_units(cpu, core))
        for count, done in given:
            counted = [one for one in UNITS[core] if isinstance(one.count, str)]
            shared = [one.name for one in counted if one.operations[0].classes.split()[0] in done]
            if count and len(shared) > 1:
                self.note(f"{', '.join(shared)} units", f"{count} of gem5's are shared by these; counted for each")
        for unit in UNITS[core]:
            self._unit(unit, given, found)
        if core == "in-order":
            for port in ("load_ports", "store_ports"):
                found[f"functional_units.{port}"] = [("its one memory unit", 1)]

    def _given_units(self, cpu: Mapping[str, Any], core: str) -> Iterator[tuple[int, dict[str, tuple[int, bool]]]]:
        """Each entry of the pool: how many, and cycles and pipelining of its operation classes."""
        if core == "out-of-order":
            pools = [self.part(owner, "fuPool") for owner in (cpu, *self.parts(cpu, QUEUE_PART[0]))]
            if not any(pools):
                raise InputError(f"{cpu['path']}.fuPool is missing; an O3 core has one")
            for item in (item for pool in pools if pool for item in self.parts(pool, "FUList")):
                done = {
                    str(one.get("opClass")): (self.whole(one, "opLat"), one.get("pipelined", True) is True)
                    for one in self.parts(item, "opList")
                }
                yield self.whole(item, "count"), done
            return
        pool = self.part(cpu, "executeFuncUnits")
        if pool is None:
            raise InputError(f"{cpu['path']}.executeFuncUnits is missing; a Minor core has one")
        for item in self.parts(pool, "funcUnits"):
            cycles, busy = self.whole(item, "opLat"), self.whole(item, "issueLat")
            boxed = self.part(item, "opClasses") or {}
            names = [str(one.get("opClass")) for one in self.parts(boxed, "opClasses")]
            yield 1, {name: (cycles, busy < max(cycles, 2)) for name in names}

    def _unit(
        self,
        unit: Unit,
        given: list[tuple[int, dict[str, tuple[int, bool]]]],
        found: dict[str, list[tuple[str, float]]],
    ) -> None:
        first = unit.operations[0].classes.split()[0]
        copies = sum(count for count, done in given if first in done)
        if isinstance(unit.count, str):
            found.setdefault(f"functional_units.{unit.count}", []).append((f"units that do {first}", copies))
        for operations in unit.operations:
            names = operations.classes.split()
            done = {name: next((d[name] for count, d in given if name in d and count), None) for name in names}
            field = f"functional_units.{operations.latency}" if isinstance(operations.latency, str) else ""
            if field and field not in found:
                lead = done[names[0]]
                if lead is None:
                    raise InputError(f"no functional unit does {names[0]}, which tells {field}")
                found[field] = [(f"{names[0]}'s opLat", (lead[0] - operations.plus) / operations.times)]
            base = found[field][0][1] if field else float(operations.latency)
            expected = (int(base * operations.times + operations.plus), operations.pipelined)
            other = [name for name in names if done[name] is not None and not _same(done[name], expected)]
            if other:
                shown = ", ".join(other[:3]) + (f" and {len(other) - 3} more" if len(other) > 3 else "")
                way = "pipelined" if expected[1] else "not pipelined"
                self.note(f"{unit.name} units", f"other latencies of {shown}; {expected[0]} cycles, {way}, assumed")

    def _relations(self, values: dict[str, Any]) -> None:
        """Queues beyond the reorder buffer and memory instructions beyond the width could never be used."""
        pipeline = values["pipeline"]
        for field, bound in (
            ("issue_queue_entries", "rob_entries"),
            ("load_queue_entries", "rob_entries"),
            ("store_queue_entries", "rob_entries"),
            ("memory_width", "width"),
        ):
            if field in pipeline and pipeline[field] > pipeline[bound]:
                self.note(
                    f"pipeline.{field} = {pipeline[bound]}",
                    f"assumed for {pipeline[field]}: no more than {bound} count",
                )
                pipeline[field] = pipeline[bound]

    def _frequency(self, cpu: Mapping[str, Any]) -> float:
        return frequency_ghz(self._period(cpu))

    def _period(self, cpu: Mapping[str, Any]) -> int:
        """The core's clock period in picoseconds."""
        domain, times = self.part(cpu, "clk_domain"), 1
        for _ in range(8):  # derived domains hang from one another
            if domain is None or "clock" in domain:
                break
            times *= max(self.whole(domain, "clk_divider"), 1) if "clk_divider" in domain else 1
            domain = self.part(domain, "clk_domain")
        if domain is None or "clock" not in domain:
            raise InputError(f"{cpu['path']}.clk_domain leads to no clock; a SrcClockDomain has one")
        period = self.whole(domain, "clock") * times
        rule = RULES["frequency_ghz"]
        if not rule.low <= (1000 / period if period else math.inf) <= rule.high:
            low, high = math.ceil(1000 / rule.high), int(1000 / rule.low)
            raise InputError(f"{domain.get('path')}.clock = {period} ps must be from {low} to {high}")
        return period

    def _predictor(self, cpu: Mapping[str, Any], core: str) -> dict[str, Any]:
        item = self.part(cpu, "branchPred")
        if core == "in-order" and (item is None or self.isa == "x86-64"):
            what = f"{item['type']} is there, but " if item is not None and "type" in item else ""
            self.note("branch_predictor = none", f"{what}gem5's MinorCPU consults no predictor for X86")
            return dict(NO_PREDICTOR)
        if item is None:
            raise InputError(f"{cpu['path']}.branchPred is missing; an out-of-order core needs a predictor")
        values: dict[str, Any] = {}
        direction = self.part(item, DIRECTION_PART) or item
        kind = direction.get("type")
        predictor = next((one for one in PREDICTORS if one.gem5 == kind), None)
        if predictor is None:
            predictor = next(one for one in PREDICTORS if one.kind == "tage")
            self.note(f"branch_predictor.kind = {predictor.kind}", f"assumed for {kind}, which has no name here")
        values["kind"] = predictor.kind
        if predictor.sizes:
            path = direction.get("path")
            sizes = [
                (f"{path}.{name}" + (f" / {times}" if times > 1 else ""), self.whole(direction, name) / times)
                for name, times in predictor.sizes
            ]
            values["entries"] = self._power("branch_predictor.entries", sizes, 16)
        else:
            values["entries"] = predictor.nominal
            self.note(
                f"branch_predictor.entries = {predictor.nominal}", f"assumed; gem5's {predictor.gem5} has one size"
            )
            inner = self.part(direction, "tage")
            if inner is not None:
                self._defaults(inner, TAGE_DEFAULT.get(predictor.gem5, {}))
            loop = self.part(direction, LOOP_PART)
            if loop is not None and predictor.gem5 == "LTAGE":
                self._defaults(loop, LOOP_DEFAULT)
        self._defaults(direction, PREDICTOR_DEFAULT)
        indirect = self.part(item, INDIRECT_PART)
        if indirect is not None:
            self._defaults(indirect, INDIRECT_DEFAULT)
        elif INDIRECT_PART in item:
            self.note(f"{item.get('path')}.{INDIRECT_PART} is none", "no field says it; a table of 512 targets assumed")
        for field, part, _, name, former in PREDICTOR_PARTS:
            inner = self.part(item, part)
            if inner is None and former in item:
                inner, name = item, former
            if inner is None:
                self.note(f"{field} = 1", f"assumed; the predictor has no {part}")
                values[field.partition(".")[2]] = 1
                continue
            source = [(f"{inner.get('path')}.{name}", float(self.whole(inner, name)))]
            if RULES[field].power_of_two:
                values[field.partition(".")[2]] = self._power(field, source, 1)
            else:
                values[field.partition(".")[2]] = max(self._least(field, field, source), 1)
        return values

    def _power(self, field: str, sources: list[tuple[str, float]], low: int) -> int:
        """The least of `sources`, as the power of two at or below it."""
        value = max(self._least(field, field, sources), low)
        power = 1 << (value.bit_length() - 1)
        if power != value:
            self.note(f"{field} = {power}", f"assumed for {value}, which is no power of two")
        return power

    # Caches and memory

    def _caches(self, cpu: Mapping[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        chain: list[Mapping[str, Any]] = []
        for level, port in (("l1i", "icache_port"), ("l1d", "dcache_port")):
            behind = self.behind(cpu, port, _CACHES)
            if not behind:
                raise InputError(f"{cpu['path']}.{port} leads to no cache; a machine needs {level}")
            values[level] = self._cache(level, behind[0])
            chain = [behind[0]]
        for level in ("l2", "l3", "l4"):
            behind = self.behind(chain[-1], "mem_side", _CACHES)
            if level == "l2" and not behind:
                raise InputError(f"{chain[-1]['path']}.mem_side leads to no further cache; a machine needs l2")
            if level == "l4" or not behind:
                if behind:
                    self.note(f"{behind[0]['path']}", "left out; a machine has three levels of caches at most")
                break
            if any(one["path"] == behind[0]["path"] for one in chain):
                raise InputError(f"{behind[0]['path']} leads back to itself")
            chain.append(behind[0])
            self._buses(chain[-2], L2_BUS_DEFAULT)
            values[level] = self._cache(level, behind[0])
        self._buses(chain[-1], SYSTEM_BUS_DEFAULT)
        values.setdefault("l3", None)
        memories = self.behind(chain[-1], "mem_side", _MEMORIES)
        memories = memories or [item for _, item in sorted(self.objects.items()) if item["type"] in _MEMORIES]
        if not memories:
            raise InputError(f"no memory; a machine needs one of {', '.join(_MEMORIES[:2])}")
        if len(memories) > 1:
            self.note(f"{memories[0]['path']} and {len(memories) - 1} more memories", "one channel assumed")
        values["memory"] = self._memory(memories[0])
        return values

    def _buses(self, cache: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
        """Note what no field says of the crossbar behind a cache, its clock too."""
        for bus in self.peers(cache, "mem_side"):
            if bus["type"] == "CoherentXBar":
                self._defaults(bus, expected)
                self._pace(bus)

    def _pace(self, item: Mapping[str, Any]) -> float:
        """Return an object's clock period in those of the core, and note where it is another."""
        period = self._period(item) if self.part(item, "clk_domain") is not None else self._core_period
        if period != self._core_period:
            self.note(
                f"{item['path']}.clk_domain", f"{period} ps, the core's is {self._core_period}; cycles are the core's"
            )
        return period / self._core_period

    def _cache(self, level: str, item: Mapping[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        pace = self._pace(item)
        for parameter in CACHE:
            field = f"{level}.{parameter.field}"
            sources = [(f"{item['path']}.{name}", self.whole(item, name) / parameter.times) for name in parameter.names]
            most = max(value for _, value in sources)
            if most != sources[0][1] or most != sources[-1][1]:
                self.note(f"{field} = {most:g}", "the most of " + ", ".join(f"{text} ({v:g})" for text, v in sources))
            most = math.ceil(most * pace) if parameter.field == "latency" else most
            values[parameter.field] = self._bounded(field, field, most, sources[0][0])
        returned = response_latency(math.ceil(values["latency"] / pace))
        self._defaults(item, {"response_latency": returned} | CACHE_SET | CACHE_DEFAULT)
        values["replacement"] = self._replacement(item)
        prefetcher = self.part(item, "prefetcher")
        kind = None if prefetcher is None else str(prefetcher.get("type"))
        known = {gem5: name for name, gem5 in PREFETCHERS.items()}
        values["prefetcher"] = known.get(kind, "none")
        if kind not in known:
            self.note(f"{level}.prefetcher = none", f"assumed for {kind}, which has no name here")
        elif prefetcher is not None:
            self._defaults(prefetcher, PREFETCHER_DEFAULT[values["prefetcher"]])
        return values

    def _replacement(self, cache: Mapping[str, Any]) -> str:
        policy = self.part(cache, "replacement_policy")
        if policy is None:
            return LRU
        for name, (kind, given) in REPLACEMENT_POLICIES.items():
            expected = REPLACEMENT_DEFAULT | given if given else {}
            if policy.get("type") == kind and all(
                policy.get(k, REPLACEMENT_DEFAULT[k]) == v for k, v in expected.items()
            ):
                return name
        told = ", ".join(f"{k} {show(policy[k])}" for k in REPLACEMENT_DEFAULT if k in policy)
        shown = f"{policy.get('type')} ({told})" if told else f"{policy.get('type')}"
        self.note(f"{cache['path']}.replacement_policy = {shown}", f"no field says it; {LRU} assumed")
        return LRU

    def _memory(self, item: Mapping[str, Any]) -> dict[str, Any]:
        if item["type"] == "SimpleMemory":
            latency, ticks = self.number(item, "latency") / 1000, self.number(item, "bandwidth")
            self._defaults(item, SIMPLE_MEMORY_DEFAULT)
            if ticks < 1:
                self.note(f"{item['path']}.bandwidth = {ticks:g}", "no field says unlimited; 1 ps a byte assumed")
            bandwidth = bandwidth_gbs(max(math.floor(ticks + 0.5), 1))
            least = RULES["memory.latency_ns"].low
            if latency < least:
                self.note(f"memory.latency_ns = {least}", f"assumed for {item['path']}.latency = {latency:g} ns")
            return {"model": "simple", "latency_ns": _plain(max(latency, least)), "bandwidth_gbs": _plain(bandwidth)}
        dram = self.part(item, "dram")
        if dram is None or dram.get("type") != "DRAMInterface":
            kind = dram.get("type") if dram is not None else item["type"]
            raise InputError(f"{item['path']} is {show(kind)}, which has no counterpart; use SimpleMemory or a DRAM")
        self._defaults(item, CONTROLLER_DEFAULT)
        model = self._dram(dram)
        policy = "close_adaptive" if dram_models()[model]["closed"] else "open_adaptive"
        self._defaults(dram, {"page_policy": policy, "addr_mapping": "RoRaBaCoCh"})
        return {"model": model}

    def _dram(self, item: Mapping[str, Any]) -> str:
        """The named DRAM with these timings: config.json does not hold the class's name."""
        shape = f"{self.whole(item, 'devices_per_rank')}x{self.whole(item, 'device_bus_width')}"
        devices = self.number(item, "devices_per_rank")
        timings = {
            "burst_bytes": self.number(item, "burst_length") * self.number(item, "device_bus_width") * devices / 8,
            "t_burst": self.number(item, "tBURST") / 1000,
            "t_ccd_long": self.number(item, "tCCD_L") / 1000,
            "t_cl": self.number(item, "tCL") / 1000,
            "t_rcd": self.number(item, "tRCD") / 1000,
            "t_rp": self.number(item, "tRP") / 1000,
            "t_ras": self.number(item, "tRAS") / 1000,
            "t_wr": self.number(item, "tWR") / 1000,
            "ranks": self.number(item, "ranks_per_channel"),
            "banks": self.number(item, "banks_per_rank"),
            "row_bytes": self.number(item, "device_rowbuffer_size") * devices,
        }

        def distance(name: str) -> float:
            model = dram_models()[name]
            apart = sum(abs(math.log((timings[key] + 1) / (model[key] + 1))) for key in timings)
            return apart + (0 if shape in name else 1e-6)

        best = min(dram_models(), key=distance)
        if distance(best) > 1e-3:
            self.note(f"memory.model = {best}", f"the nearest by name and timings to {item.get('path')}")
        return best


def _same(given: tuple[int, bool] | None, expected: tuple[int, bool]) -> bool:
    """Return whether an operation's latency and pipelining are as expected; at one cycle pipelining makes no
    difference.
    """
    return given is not None and given[0] == expected[0] and (given[1] == expected[1] or given[0] == 1)


def _plain(value: float) -> int | float:
    return int(value) if value == int(value) else value
