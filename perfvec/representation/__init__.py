"""Programs as vectors: exact, sampled, streamed, by instruction, by PerfVec's contexts."""
