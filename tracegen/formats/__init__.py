"""Files and codecs: traces, latencies, ChampSim's traces, and how a column is compressed."""
