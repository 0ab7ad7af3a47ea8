"""Programs as vectors: exact, sampled, streamed, by instruction, by PerfVec's contexts."""

LIBRARY_UNITS = 128  # of a program in a library; defined here so that the command line reads it without PyTorch
