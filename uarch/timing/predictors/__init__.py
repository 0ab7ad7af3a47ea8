"""Direction predictors, one file each.

Contract: a predictor's file has

- `new(entries) -> Predictor`: its state, from the machine's `branch_predictor.entries`;
- `predict(state, pc) -> int`: 1 where the conditional branch at `pc` is predicted taken (numba);
- `update(state, pc, taken) -> None`: learns the outcome of the branch just predicted and moves the histories (numba);
- optionally `observe(state, pc, taken) -> None`: an unconditional branch passes (numba).

What `predict` finds out and `update` needs goes through `state.scratch`. Histories are the committed ones: a trace has
no wrong path. To add one: write the file, add its name to `PREDICTORS` in `uarch.constraints` and a line to each
function of `dispatch.py`. `local.py` is the smallest.
"""
