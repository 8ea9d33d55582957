"""`fedrap-aggregator`: the helper of private aggregation, run by another than the coordinator.

It holds the second share of every report, checks reports together with the leader, and gives away
nothing but the noised share of a round's sum. docs/aggregation.md says what it sees and refuses.
"""
