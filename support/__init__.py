"""The base of every floor: errors, files, text, compiled code, executors; it knows nothing of machines or traces."""
