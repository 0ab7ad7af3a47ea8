"""What a collection is asked for, checked before anything is begun."""

from __future__ import annotations

from dataclasses import dataclass, field

from tracegen.tensor.build import require_device
from tracegen.tensor.operators import parse_operator
from tracegen.tensor.simulated import PREFIX, simulated_devices
from tracegen.tensor.tasks import parse_network
from uarch.configuration import Machine
from uarch.errors import InputError


@dataclass(frozen=True)
class Plan:
    """What to collect, and within which limits. Without networks and operators: of the tasks of an earlier call."""

    networks: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("x86-64-v3",)
    schedules: int = 64  # a task, at most; 0: those of an earlier call
    evolutionary: float = 0.5  # the part of them that evolutionary search finds, after the random ones
    round: int = 10  # schedules of a task before it is the next task's turn
    minutes: float | None = None
    seed: int = 0
    budget_s: float = 0.3  # measuring of one candidate
    slow_factor: float = 10.0  # a candidate so much slower than the best of its task is run once
    build_limit_s: float = 60.0
    run_limit_s: float = 10.0
    again: float = 0.02  # the part of the records that is measured a second time, to know the noise
    isa: str = "x86-64"  # of the programs that simulated machines run
    max_instructions: int = 5_000_000  # of one call that is simulated
    simulated_tasks: int | None = None  # how many tasks simulated machines get; None: all
    simulated_schedules: int | None = None  # of each task; None: all
    cpu: int | None = None
    builder_cpu: int | None = None
    machines: dict[str, Machine] = field(init=False, repr=False, compare=False)  # the simulated devices, by name

    def __post_init__(self) -> None:
        for network in self.networks:
            parse_network(network)
        for operator in self.operators:
            parse_operator(operator)
        if not self.devices:
            raise InputError("no device to measure on; name one")
        for device in self.devices:
            if not device.startswith(PREFIX):
                require_device(device)
        machines: dict[str, Machine] = {}
        for text in self.devices:
            if text.startswith(PREFIX):
                for name, machine in simulated_devices(text, self.isa).items():
                    if machines.setdefault(name, machine) != machine:
                        raise InputError(f"two machines are called {machine.name}; rename one")
        object.__setattr__(self, "machines", machines)

    @property
    def measured_on(self) -> tuple[str, ...]:
        """The devices that are this computer."""
        return tuple(device for device in self.devices if not device.startswith(PREFIX))
