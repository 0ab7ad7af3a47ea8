"""Direction predictors, one file each.

As in gem5's out-of-order core a branch meets its predictor twice: the front end predicts it and moves the histories
that are kept speculatively; when it retires, the tables learn. Between the two other branches pass, so what the first
step finds out and the second needs is noted in a row of `state.notes` that is the branch's. A predictor's file has

- `new(entries) -> Predictor`: its state, from the machine's `branch_predictor.entries`;
- `predict(state, row, pc) -> int`: 1 where the conditional branch at `pc` is predicted taken (numba);
- optionally `pass_by(state, row, pc, taken, conditional) -> None`: any branch moves the speculative histories (numba);
- `learn(state, row, pc, taken, target, conditional, direct) -> None`: the branch retires, having gone to `target`
  (numba; those that need fewer arguments take fewer).

Speculative histories are those of the path taken: a trace has no wrong path, and gem5 restores them when it leaves one.
To add one: write the file, add its name to `PREDICTORS` in `uarch.constraints` and a line to each function of
`dispatch.py`. `local.py` is the smallest.
"""
