"""Statistics of instruction and address streams: reuse distances, entropies, dependencies, clusters."""
