"""Cost models of tensor programs: features of scheduled candidates and a device in, scores or latencies out."""
