"""Stock gem5 (gem5.org; v23 and v24 checked) as a source of traces and labels.

`run_se.py` runs inside gem5, `reader` turns what a run leaves into a trace and latencies, `label` labels traces by it.
"""
