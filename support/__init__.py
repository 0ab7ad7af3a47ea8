"""What every floor stands on: errors, files, text, compiled code, executors; it knows nothing of machines or traces."""
