"""Decisions: how they are drawn, relaxed and learned, and what they cost.

`categorical` chooses one of S values, `bernoulli` opens gates; `estimators`
says what a decision drawn in training is forward and backward, for both;
`sampling` draws the noise, `costs` charges.
"""
