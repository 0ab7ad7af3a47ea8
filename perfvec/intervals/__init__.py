"""How sure a prediction is: distance from the training set, and intervals calibrated on programs that were left out."""
