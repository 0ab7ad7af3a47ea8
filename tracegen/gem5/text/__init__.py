"""gem5's debug text → executed instructions: the lines of `Exec` and `O3PipeView`, scanned as bytes.

What gem5 v23 and v24 print (src/cpu/exetrace.cc, src/cpu/o3/dyn_inst.cc), and what is made of it:

- An `Exec` line is one micro-operation at commit, in program order. Those from the first to the one with
  `IsLastMicroop` are an instruction; a line without `flags=` names a macro-operation and says nothing else.
- On O3 its tick is that of the fetch. `O3PipeView`'s record of the same sequence number (`FetchSeq`) tells the tick of
  the retirement; it appears when the instruction leaves the core, out of order, for squashed ones too (these no one
  asks for).
- On Minor and on the simple cores its tick is that of the commit.
- A micro-operation that faults is printed as if it had committed, then again (the first touch of a page). O3 tells,
  since `CPSeq` does not advance; else the same memory micro-operation twice in a row at one address is one that was
  repeated.
- A system call is a fault that nothing repeats. On O3 it has no tick of retirement; it counts as retired when it is
  complete, or with the instruction before it, whichever is later.

Lines of other debug flags are passed over. The scanner holds one line back, so that it knows what follows a fault.
"""
