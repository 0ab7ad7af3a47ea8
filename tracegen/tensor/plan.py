"""Plan of a collection, checked before anything is begun."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from support.errors import InputError
from tracegen.tensor.build import require_device
from tracegen.tensor.operators import parse_operator
from tracegen.tensor.replay import Replay, read_replay
from tracegen.tensor.simulated import PREFIX, simulated_devices
from tracegen.tensor.tasks import parse_network
from uarch.configuration import Machine


@dataclass(frozen=True)
class Plan:
    """Tasks to collect, and limits. Without networks and operators: of the tasks of an earlier call."""

    networks: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("x86-64-v3",)
    schedules_of: str | None = None  # a dataset, whose schedules are measured in place of new ones
    tasks: int | None = None  # how many of that dataset's; None: all
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
    replay: Replay | None = field(init=False, repr=False, compare=False)  # what is taken of `schedules_of`

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
        object.__setattr__(self, "replay", self._replay())

    def _replay(self) -> Replay | None:
        if self.schedules_of is None:
            if self.tasks is not None:
                raise InputError("a number of tasks is of those of a dataset; name it with --schedules-of")
            return None
        if self.networks or self.operators:
            raise InputError("--schedules-of takes the dataset's own tasks; leave --network and --operators out")
        return read_replay(
            self.schedules_of,
            tasks=self.tasks,
            schedules=self.schedules,
            max_flops=math.inf if self.measured_on else self.max_instructions / 2,
        )

    @property
    def measured_on(self) -> tuple[str, ...]:
        """The devices that are this computer."""
        return tuple(device for device in self.devices if not device.startswith(PREFIX))
