"""What all layers that decide have in common.

`costs` are the weights of what decisions add to the loss, `statistics` the
metrics of an epoch, which `tracking` may switch off, and `log_probabilities`
where layers leave those of what they draw.
"""
