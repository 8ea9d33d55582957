"""Private aggregation by two servers: nobody sees one device's items.

A device splits its update into two reports that are random numbers on their own, one for the
leader and one for the helper. Each server expands its report to a share of every row of the
model, checks it together with the other server without seeing it, and adds it to a running sum.
Only the sums of a round are put together, each with noise of its server.

    field        numbers modulo 2^31 - 1
    xof          keys, fixed-key AES and streams of field numbers
    layout       which of three places an item may take, and who takes which (cuckoo hashing)
    dpf          one row at one secret position, as two short keys (Boyle, Gilboa, Ishai 2016)
    compiled     the same expansion in one pass: expand.c, or numba; for servers
    proof        what a report holds is small, shown on shares (Boneh et al. 2019; Prio3)
    numbers      an update as small whole numbers, and a sum of them as an update's sum
    vectors      one short vector of every device, without rows: answers to questions
    report       what a device makes, and its bytes
    verify       what both servers do with reports, and their running sums

No formal proof of the whole exists; it is experimental and wants outside review.
"""
