"""Uses of tensor cost models: finding fast schedules, and a whole network's time from its kernels'."""
