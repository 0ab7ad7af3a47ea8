"""What a tensor cost model is for: to find fast schedules, and to tell a whole network's time from its kernels'."""
