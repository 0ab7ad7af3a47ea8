"""A machine as a configuration script that stock gem5 runs: `gem5.opt MACHINE.py -- PROGRAM ARGS`.

The script is one file of plain gem5 Python in syscall emulation with classic caches. What it sets is `table`; around
that it is as a careful user of gem5 would write it: `L2XBar` between cache levels, `SystemXBar` to memory, page walks
through the system bus, one clock domain. Checked with gem5 v24.0.0.1 for X86: on the two machines of which the project
has gem5's own statistics, the scripts give the same cycles (60,295 on O3, 53,092 on Minor). v23.0.0.1 runs the same
text, which asks gem5 for what versions have under different names. The text is ASCII, as v23 reads it,
whatever the locale is.
"""

from __future__ import annotations

import pprint
import textwrap
from dataclasses import replace

from uarch.configuration import Cache, Machine, SimpleMemory
from uarch.constraints import LRU
from uarch.gem5.simulated import as_simulated, digest, predicts
from uarch.gem5.table import (
    CACHE,
    CACHE_SET,
    CORE,
    CORE_CLASS,
    CORE_SET,
    DIRECTION_PART,
    ISAS,
    ISSUE_QUEUE,
    PREDICTOR_PARTS,
    PREFETCHERS,
    QUEUE_PART,
    REPLACEMENT_POLICIES,
    UNITS,
    Unit,
    communication_size,
    period_ps,
    predictor_of,
    response_latency,
)

_WIDTH = 116


def gem5_script(machine: Machine, isa: str = "x86-64") -> str:
    """The script's text for programs of `isa` (`x86-64`, `aarch64`, `riscv64`). Its head names the machine, its digest
    and what stock gem5 does otherwise (`simulated.as_simulated`). Raises InputError.
    """
    simulated, notes = as_simulated(machine, isa)
    prefix = ISAS[isa].prefix
    levels = ["l1i", "l1d", "l2"] + (["l3"] if simulated.l3 is not None else [])
    core_class, fast_class = prefix + CORE_CLASS[machine.core], prefix + "AtomicSimpleCPU"
    parts = [
        _head(machine, isa, notes),
        _imports(simulated, isa, core_class, fast_class),
        _ARGUMENTS,
        _fields(machine),
        _units(simulated, isa),
        _core(simulated, isa, core_class),
        *(_cache(level, getattr(simulated, level)) for level in levels),
        _memory(simulated),
        _wiring(levels, fast_class, interrupt_ports=isa == "x86-64"),
        _RUN,
    ]
    text = "\n\n".join(part.strip("\n") for part in parts) + "\n"
    return text.encode("ascii", "backslashreplace").decode()  # only strings hold more than that


def _head(machine: Machine, isa: str, notes: list[str]) -> str:
    name = "".join(letter if letter.isprintable() and letter not in '"\\\\' else "?" for letter in machine.name)
    told = "".join(
        textwrap.fill(note, _WIDTH - 2, initial_indent="  - ", subsequent_indent="    ") + "\n" for note in notes
    )
    return (
        f'"""The machine {name} ({machine.core}) for gem5 v23 and v24: {isa}, syscall emulation, classic caches.\n\n'
        f"Digest of the machine's fields: {digest(machine)}\n\n"
        "    gem5.opt THIS.py [--fast-forward N] [--warmup N] [--max-instructions N] -- PROGRAM ARGS...\n\n"
        "gem5 writes its statistics (those of the measured instructions), config.json and run.json into its output\n"
        "folder. For perfvec import gem5 write --debug-flags=ExecAll,O3PipeView,Vma --debug-file=trace.out.gz\n"
        "before its name.\n" + (f"\nWhat gem5 does otherwise than the machine says:\n{told}" if notes else "") + '"""'
    )


def _imports(machine: Machine, isa: str, core_class: str, fast_class: str) -> str:
    names = {"AddrRange", "Cache", "L2XBar", "Process", "RedirectPath", "Root", "SEWorkload", "SrcClockDomain"}
    names |= {"System", "SystemXBar", "VoltageDomain", core_class, fast_class}
    names |= {"FUDesc", "FUPool", "OpDesc"} if machine.core == "out-of-order" else set()
    if machine.core == "in-order":
        names |= {"MinorFU", "MinorFUPool", "MinorFUTiming", "MinorOpClass", "MinorOpClassSet"}
    if predicts(machine, isa):
        names.add(predictor_of(machine.branch_predictor.kind, machine.branch_predictor.entries).gem5)
    for cache in (machine.l1i, machine.l1d, machine.l2, machine.l3):
        if cache is not None and (prefetcher := PREFETCHERS[cache.prefetcher]):
            names.add(prefetcher)
        if cache is not None and cache.replacement != LRU:
            names.add(REPLACEMENT_POLICIES[cache.replacement][0])
    names |= {"SimpleMemory"} if isinstance(machine.memory, SimpleMemory) else {"MemCtrl", machine.memory.model}
    listed = "".join(f"    {name},\n" for name in sorted(names))
    modules = "".join(f"import {name}\n" for name in ("argparse", "json", "os", "shutil", "sys"))
    return f"{modules}\nimport m5\nfrom m5.objects import (\n{listed})"


_ARGUMENTS = """
parser = argparse.ArgumentParser(prog="gem5.opt " + sys.argv[0])
parser.add_argument(
    "--fast-forward",
    type=int,
    default=0,
    metavar="N",
    help="first N instructions on a simple core that only warms the caches",
)
parser.add_argument(
    "--warmup",
    type=int,
    default=0,
    metavar="N",
    help="next N instructions on the machine, outside the statistics",
)
parser.add_argument(
    "--max-instructions",
    type=int,
    default=0,
    metavar="N",
    help="measure N instructions; to the program's end by default",
)
parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="environment of the program")
parser.add_argument("--executable", metavar="FILE", help="the program's file, where PROGRAM is only its name")
parser.add_argument("--cwd", default=os.getcwd(), metavar="FOLDER", help="the program's working directory")
parser.add_argument(
    "--sysroot",
    metavar="FOLDER",
    help="a dynamic program's loader and libraries lie below it (/usr/aarch64-linux-gnu), not in this system's /lib",
)
parser.add_argument("--stdin", metavar="FILE", help="file on the program's standard input")
parser.add_argument("--stdout", metavar="FILE", help="file for the program's standard output")
parser.add_argument("--stderr", metavar="FILE", help="file for the program's standard error")
parser.add_argument(
    "--trace-fast-forward",
    action="store_true",
    help="debug text of instructions (--debug-flags=ExecAll,...) of the fast-forward too",
)
parser.add_argument("--memory", default="2GiB", help="size of memory; 2GiB by default")
parser.add_argument("program", nargs="+", help="program and its arguments, after --")
arguments = parser.parse_args()
"""


def _fields(machine: Machine) -> str:
    """The machine as data, for the record of a run."""
    return "MACHINE = " + pprint.pformat(machine.to_dict(), width=_WIDTH, sort_dicts=False)


def _units(machine: Machine, isa: str) -> str:
    """The functional units, after the functions that make them and what else is not made alike in all versions."""
    units = machine.functional_units
    machine = replace(machine, functional_units=replace(units, div_latency=units.int_div_latency(isa)))
    out_of_order = machine.core == "out-of-order"
    one = _out_of_order_unit if out_of_order else _in_order_unit
    body = "".join(one(unit, machine) for unit in UNITS[machine.core])
    parts = [_OPERATIONS, _OUT_OF_ORDER_UNIT if out_of_order else _IN_ORDER_UNIT]
    parts += [_issue_queue()] if out_of_order else []
    parts += [_branch_predictor()] if predicts(machine, isa) else []
    return "\n\n\n".join(part.strip("\n") for part in [*parts, f"units = [\n{body}]"])


_OPERATIONS = "OPERATIONS = m5.objects.OpClass.vals  # v23 and v24 name those of RISC-V's vectors differently"

_OUT_OF_ORDER_UNIT = '''
def unit(count, *operations):
    """`count` equal units; each of `operations` is (operation classes, cycles, pipelined)."""
    return FUDesc(
        count=count,
        opList=[
            OpDesc(opClass=name, opLat=cycles, pipelined=pipelined)
            for names, cycles, pipelined in operations
            for name in names.split()
            if name in OPERATIONS
        ],
    )
'''

_IN_ORDER_UNIT = '''
def unit(count, names, cycles, busy, late=None, extra=0):
    """`count` equal units: operation classes, cycles to the result, cycles until the next may start, cycles after issue
    at which operands are needed, further cycles that a consumer assumes.
    """
    rules = [] if late is None else [(late, extra)]
    names = [name for name in names.split() if name in OPERATIONS]
    return [
        MinorFU(
            opClasses=MinorOpClassSet(opClasses=[MinorOpClass(opClass=name) for name in names]),
            opLat=cycles,
            issueLat=busy,
            timings=[MinorFUTiming(srcRegsRelativeLats=[late], extraAssumedLat=extra) for late, extra in rules],
        )
        for _ in range(count)
    ]
'''


def _classes(names: str, indent: str) -> str:
    """Operation classes as a string literal, over several lines where they are many."""
    words = names.split()
    if len(indent) + len(names) < _WIDTH - 8:
        return f'{indent}"{" ".join(words)}"'
    lines = textwrap.wrap(" ".join(words), _WIDTH - len(indent) - 8)
    return "\n".join(f'{indent}"{line}{" " if line is not lines[-1] else ""}"' for line in lines)


def _comment(unit: Unit) -> str:
    """Return a comment with the unit's name and the fields that set it."""
    named = [unit.count, *(item.latency for item in unit.operations)]
    fields = ", ".join(dict.fromkeys(name for name in named if isinstance(name, str)))
    return f"    # {unit.name}" + (f": {fields}" if fields else "")


def _out_of_order_unit(unit: Unit, machine: Machine) -> str:
    units = machine.functional_units
    lines = [_comment(unit), "    unit(", f"        {unit.copies(units)},"]
    for item in unit.operations:
        end = f"{item.cycles(units)}, {item.pipelined}"
        line = f"{_classes(item.classes, ' ' * 8).strip()}, {end}"
        if "\n" not in line and len(line) < _WIDTH - 12:
            lines.append(f"        ({line}),")
        else:
            lines += ["        (", _classes(item.classes, " " * 12) + ",", f"            {item.cycles(units)},"]
            lines += [f"            {item.pipelined},", "        ),"]
    return "\n".join([*lines, "    ),"]) + "\n"


def _in_order_unit(unit: Unit, machine: Machine) -> str:
    units = machine.functional_units
    (item,) = unit.operations
    cycles = item.cycles(units)
    lines = [_comment(unit), "    *unit(", f"        {unit.copies(units)},", _classes(item.classes, " " * 8) + ","]
    lines += [f"        cycles={cycles},", f"        busy={1 if item.pipelined else cycles},"]
    if unit.late is not None:
        lines.append(f"        late={unit.late},")
    if unit.extra_latency:
        lines.append(f"        extra={unit.extra_latency},")
    return "\n".join([*lines, "    ),"]) + "\n"


def _issue_queue() -> str:
    (name,) = ISSUE_QUEUE.names
    return f'''
def issue_queue(entries, pool):
    """A queue of instructions and the units behind it: parameters of the core, of an object of it in gem5 v25."""
    if hasattr(m5.objects, "{QUEUE_PART[1]}"):
        return {{"{QUEUE_PART[0]}": [m5.objects.{QUEUE_PART[1]}({QUEUE_PART[2]}=entries, fuPool=pool)]}}
    return {{"{name}": entries, "fuPool": pool}}
'''


def _branch_predictor() -> str:
    """Versions of gem5 are told by the classes that they have, not by their numbers: a build between two has either."""
    names = [field.partition(".")[2] for field, *_ in PREDICTOR_PARTS]
    sizes = ", ".join(f"{former}={own}" for own, (*_, former) in zip(names, PREDICTOR_PARTS, strict=True))
    parts = "".join(
        f'        "{part}": m5.objects.{kind}({name}={own}),\n'
        for own, (_, part, kind, name, _) in zip(names, PREDICTOR_PARTS, strict=True)
    )
    return f'''
def branch_predictor(direction, {", ".join(names)}, **sizes):
    """A predictor of directions with its tables of targets: these are sizes of it in gem5 v23.0, objects of it from
    v23.1 on, and objects beside it in v25.
    """
    if not hasattr(m5.objects, "{PREDICTOR_PARTS[0][2]}"):
        return direction({sizes}, **sizes)
    targets = {{
{parts}    }}
    if hasattr(m5.objects, "ConditionalPredictor"):
        return m5.objects.BranchPredictor({DIRECTION_PART}=direction(**sizes), **targets)
    return direction(**sizes, **targets)
'''


def _core(machine: Machine, isa: str, core_class: str) -> str:
    values = machine.to_dict()
    period = period_ps(machine.frequency_ghz)
    lines = [
        f"ISA = {isa!r}",
        f"PERIOD = {period}  # picoseconds: frequency_ghz = {machine.frequency_ghz}",
        "system = System(cache_line_size=64, mem_ranges=[AddrRange(arguments.memory)])",
        'system.clk_domain = SrcClockDomain(clock=f"{PERIOD}ps", voltage_domain=VoltageDomain())',
        "",
        f"system.cpu = {core_class}(",
        "    cpu_id=0,",
    ]
    for parameter in CORE[machine.core]:
        if parameter.isa not in (None, isa) or parameter == ISSUE_QUEUE:
            continue
        section, _, field = parameter.field.partition(".")
        value = parameter.value(values[section][field])
        lines += [f"    {name}={value},  # {parameter.field}" for name in parameter.names]
    lines += [f"    {name}={value}," for name, value in CORE_SET[machine.core].items()]
    if machine.core == "out-of-order":
        size = communication_size(machine)
        lines += [f"    backComSize={size},", f"    forwardComSize={size},"]
        entries = values["pipeline"]["issue_queue_entries"]
        lines.append(f"    **issue_queue({entries}, FUPool(FUList=units)),  # {ISSUE_QUEUE.field}")
    else:
        lines.append("    executeFuncUnits=MinorFUPool(funcUnits=units),")
    if predicts(machine, isa):
        kind, entries = machine.branch_predictor.kind, machine.branch_predictor.entries
        predictor = predictor_of(kind, entries)
        lines += ["    branchPred=branch_predictor(", f"        {predictor.gem5},  # branch_predictor.kind = {kind}"]
        for field, *_ in PREDICTOR_PARTS:
            _, _, name = field.partition(".")
            lines.append(f"        {name}={values['branch_predictor'][name]},  # {field}")
        lines += [f"        {name}={entries * times},  # branch_predictor.entries" for name, times in predictor.sizes]
        lines.append("    ),")
    return "\n".join([*lines, ")"])


def _cache(level: str, cache: Cache) -> str:
    lines = [f"system.{level} = Cache("]
    for parameter in CACHE:
        value = parameter.value(getattr(cache, parameter.field))
        text = f'"{getattr(cache, parameter.field)}KiB"' if parameter.field == "size_kib" else str(value)
        lines += [f"    {name}={text},  # {level}.{parameter.field}" for name in parameter.names]
    lines.append(f"    response_latency={response_latency(cache.latency)},")
    lines += [f"    {name}={value}," for name, value in CACHE_SET.items()]
    if level == "l1i":
        lines += ["    is_read_only=True,", "    writeback_clean=True,"]
    if prefetcher := PREFETCHERS[cache.prefetcher]:
        lines.append(f"    prefetcher={prefetcher}(),  # {level}.prefetcher")
    if cache.replacement != LRU:
        policy, parameters = REPLACEMENT_POLICIES[cache.replacement]
        given = ", ".join(f"{name}={value}" for name, value in parameters.items())
        lines.append(f"    replacement_policy={policy}({given}),  # {level}.replacement")
    return "\n".join([*lines, ")"])


def _memory(machine: Machine) -> str:
    memory = machine.memory
    if isinstance(memory, SimpleMemory):
        return (
            "system.mem = SimpleMemory(\n"
            "    range=system.mem_ranges[0],\n"
            f'    latency="{memory.latency_ns}ns",  # memory.latency_ns\n'
            f'    bandwidth="{memory.bandwidth_gbs}GiB/s",  # memory.bandwidth_gbs; gem5\'s GB are 2**30 bytes\n'
            ")"
        )
    return f"system.mem = MemCtrl(dram={memory.model}(range=system.mem_ranges[0]))  # memory.model\n"


def _wiring(levels: list[str], fast_class: str, *, interrupt_ports: bool) -> str:
    lines = [
        "# The fast-forwarding core has the caches first; the machine's own core takes them over.",
        "first = system.cpu",
        "if arguments.fast_forward:",
        f"    system.fast_cpu = {fast_class}(cpu_id=0)",
        "    system.cpu.switched_out = True",
        "    first = system.fast_cpu",
        "system.mem_mode = first.memory_mode()",
        "",
        "first.icache_port = system.l1i.cpu_side",
        "first.dcache_port = system.l1d.cpu_side",
        "system.l2bus = L2XBar()",
        "system.l1i.mem_side = system.l2bus.cpu_side_ports",
        "system.l1d.mem_side = system.l2bus.cpu_side_ports",
        "system.l2.cpu_side = system.l2bus.mem_side_ports",
    ]
    if "l3" in levels:
        lines += [
            "system.l3bus = L2XBar()",
            "system.l2.mem_side = system.l3bus.cpu_side_ports",
            "system.l3.cpu_side = system.l3bus.mem_side_ports",
        ]
    lines += [
        "system.membus = SystemXBar()",
        f"system.{levels[-1]}.mem_side = system.membus.cpu_side_ports",
        "first.mmu.connectWalkerPorts(system.membus.cpu_side_ports, system.membus.cpu_side_ports)",
        "first.createInterruptController()",
    ]
    if interrupt_ports:
        lines += [
            "first.interrupts[0].pio = system.membus.mem_side_ports",
            "first.interrupts[0].int_requestor = system.membus.cpu_side_ports",
            "first.interrupts[0].int_responder = system.membus.mem_side_ports",
        ]
    lines += ["system.mem.port = system.membus.mem_side_ports", "system.system_port = system.membus.cpu_side_ports"]
    return "\n".join(lines)


_RUN = '''
program = arguments.executable or os.path.abspath(shutil.which(arguments.program[0]) or arguments.program[0])
if not os.path.isfile(program):
    parser.error(f"{program}: no such program")
if wrong := [item for item in arguments.env if "=" not in item]:
    parser.error(f"--env {wrong[0]} must read NAME=VALUE")
environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", **dict(item.split("=", 1) for item in arguments.env)}
streams = {"input": arguments.stdin, "output": arguments.stdout, "errout": arguments.stderr}
if arguments.sysroot:
    sysroot = os.path.abspath(arguments.sysroot)
    m5.core.setInterpDir(sysroot)
    system.redirect_paths = [
        RedirectPath(app_path=path, host_paths=[sysroot + path, path]) for path in ("/lib/", "/lib64/", "/usr/lib/")
    ]
system.workload = SEWorkload.init_compatible(program)
first.workload = Process(
    executable=program,
    cmd=arguments.program,
    env=[f"{name}={value}" for name, value in environment.items()],
    cwd=os.path.abspath(arguments.cwd),
    **{name: os.path.abspath(path) for name, path in streams.items() if path},
)
first.createThreads()
if arguments.fast_forward:
    system.cpu.workload = first.workload
    system.cpu.isa = first.isa
    system.cpu.createThreads()

# Debug text of instructions, where --debug-flags asked for it, begins with the machine's own core: its pipeline is
# empty then, so that no instruction is half told.
traced = [flag for flag in map(m5.debug.flags.get, ("ExecEnable", "O3PipeView")) if flag is not None and flag.tracing]
quiet = traced if arguments.fast_forward and not arguments.trace_fast_forward else []
for flag in quiet:
    flag.disable()

# What a reader of the text needs to know of the run; perfvec import gem5 reads it.
run = {
    "gem5": getattr(sys.modules.get("_m5.core"), "gem5Version", "of unknown version"),
    "machine": MACHINE,
    "isa": ISA,
    "period": PERIOD,
    "program": program,
    "command": arguments.program,
    "environment": environment,
    "cwd": os.path.abspath(arguments.cwd),
    "sysroot": os.path.abspath(arguments.sysroot) if arguments.sysroot else "",
    "stdin": os.path.abspath(arguments.stdin) if arguments.stdin else None,
    "fast_forward": arguments.fast_forward,
    "warmup": arguments.warmup,
    "max_instructions": arguments.max_instructions,
    "traced": "everything" if traced and not quiet else "from the warm-up on" if traced else "nothing",
}


def record(**facts):
    run.update(facts)
    with open(os.path.join(m5.options.outdir, "run.json"), "w") as file:
        json.dump(run, file, indent=1)


def advance(cpu, instructions, phase):
    """Simulate `instructions` more on `cpu` (0: to the program's end). Whether the program goes on afterwards."""
    if instructions:
        cpu.scheduleInstStop(0, instructions, phase)
    event = m5.simulate()
    if event.getCause() == phase:
        return True
    record(ended=event.getCause(), exit_status=event.getCode())
    print(f"{phase}: {event.getCause()}, exit status {event.getCode()}")
    return False


record()
root = Root(full_system=False, system=system)
m5.instantiate()
running = True
if arguments.fast_forward:
    running = advance(system.fast_cpu, arguments.fast_forward, "fast-forward")
    if running:
        m5.switchCpus(system, [(system.fast_cpu, system.cpu)])
record(core_begins=m5.curTick())
for flag in quiet:
    flag.enable()
if running and arguments.warmup:
    running = advance(system.cpu, arguments.warmup, "warm-up")
if not running:
    print("the program ended before the measured instructions")
    sys.exit(1)

m5.stats.reset()
begin, executed = m5.curTick(), system.cpu.totalInsts()
running = advance(system.cpu, arguments.max_instructions, "measurement")
cycles, instructions = (m5.curTick() - begin) // PERIOD, system.cpu.totalInsts() - executed
record(begin=begin, end=m5.curTick(), instructions=instructions, cycles=cycles, instructions_before=executed)
print(f"{instructions} instructions, {cycles} cycles")
if running and traced:
    # O3PipeView tells of an instruction when it leaves the core, some time after it has retired. The statistics of the
    # measured instructions are the first in stats.txt.
    m5.stats.dump()
    m5.drain()
'''
