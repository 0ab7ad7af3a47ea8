"""A trained cost model in TVM's search: MetaSchedule's interface around `perfvec.tensor.contract.CostModel`.

It may be given to TVM wherever MetaSchedule takes a cost model (`tune_relax(…, cost_model=SearchModel(…))`). Imports
TVM: call `tracegen.tensor.installation.require_tvm` first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import tvm_ffi
from numpy.typing import NDArray
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule import MeasureCandidate, TuneContext
from tvm.s_tir.meta_schedule.cost_model import PyCostModel
from tvm.s_tir.meta_schedule.runner import RunnerResult

from analysis.tensor.features import features
from perfvec.tensor.contract import Budget, CostModel
from perfvec.tensor.model_file import load_model, save_model
from perfvec.tensor.records import FeatureGroup, Records, Task
from tracegen.tensor.dataset import Device, Rows

_LARGEST = 50.0  # score whose power of e is taken
_FAILED_S = 1e9  # TVM stores 1e10 seconds for candidates that failed


@derived_object
class SearchModel(PyCostModel):
    """Ranks candidates by a trained model on `device`, from the first round; every round's measurements update it.

    An update goes over all measurements of the search so far, so that the last round does not erase those before;
    `budget` is that of one update, with no epochs there is none. A device that did not train the model is asked
    zero-shot until the first update.
    """

    def __init__(self, model: CostModel, device: Device, budget: Budget, seed: int = 0) -> None:
        super().__init__()
        self.model, self.device, self.budget, self.seed = model, device, budget, seed
        self.seen: list[FeatureGroup] = []
        self.seconds: list[NDArray[np.float64]] = []
        self.groups: list[int] = []  # for each of `seen`
        self.numbers: dict[int, int] = {}  # structural hash of a workload → number of its group

    def load(self, path: str) -> None:
        """Take the model from its file (`perfvec.tensor.model_file`)."""
        self.model = load_model(path)

    def save(self, path: str) -> None:
        """Write the model as it is now."""
        save_model(self.model, path, {"made by": "perfvec tensor tune", "device": self.device.name})

    def predict(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> NDArray[np.float64]:
        """[candidates] predicted executions per second, of a model that only ranks e to the score; higher is better.

        Never below 0: the evolutionary search takes every negative score for 0 (PredictNormalizedScore), and draws the
        parents of its next generation with the scores as weights.
        """
        group = features(self.model.kind, [candidate.sch for candidate in candidates], [context.mod] * len(candidates))
        self.model.check(group)
        score = self.model.score(group.rows, self.device, zero_shot=True)
        seconds = self.model.latencies(score, self.device)
        rate = np.where(np.isnan(seconds), np.exp(np.clip(score, -_LARGEST, _LARGEST)), 1.0 / seconds)
        return np.nan_to_num(rate, nan=0.0)

    def update(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Learn from a round's measurements; failed candidates teach nothing."""
        seconds = np.array([_seconds(result) for result in results])
        ran = [index for index, value in enumerate(seconds) if np.isfinite(value)]
        if not ran or not self.budget.epochs:
            return
        number = self.numbers.setdefault(tvm_ffi.structural_hash(context.mod), len(self.numbers))
        self.seen.append(features(self.model.kind, [candidates[index].sch for index in ran], [context.mod] * len(ran)))
        self.seconds.append(seconds[ran])
        self.groups.append(number)
        self.model.update(self.records(), budget=self.budget, seed=self.seed)

    def records(self) -> Records:
        """All that was measured."""
        lengths = np.concatenate([group.rows.length for group in self.seen])
        values = np.concatenate([group.rows.values for group in self.seen])
        offset = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        first = self.seen[0]
        positions = [group.rows.position for group in self.seen if group.rows.position is not None]
        rows = Rows(values, offset, np.concatenate(positions) if positions else None)
        group = np.repeat(self.groups, [len(seconds) for seconds in self.seconds]).astype(np.int64)
        return Records(
            groups={self.model.kind: replace(first, rows=rows)},
            candidate=np.arange(len(lengths)),
            task=group,
            device=np.zeros(len(lengths), np.int64),
            seconds=np.concatenate(self.seconds),
            tasks=tuple(Task(f"task {number}", "other") for number in range(len(self.numbers))),
            devices=(self.device,),
            source="the search's measurements",
        )


def _seconds(result: RunnerResult) -> float:
    """Median of a result's repeats; NaN of one that failed."""
    if result.run_secs is None or result.error_msg is not None:
        return float("nan")
    median = float(np.median([float(second) for second in result.run_secs]))
    return median if 0 < median < _FAILED_S else float("nan")
