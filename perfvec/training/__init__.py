"""Training the foundation model, the machine encoder and fitted machines: data, loss, optimizer, loop."""
