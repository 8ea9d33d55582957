"""`paper`: FedRAP as published (Li, Long, Zhou, ICLR 2024), Eq. 3 with curricula and variants.

curriculum.py  lambda(a) and mu(a)            objective.py  Eq. 3 and its gradients
sampling.py    negatives, steps, first values problem.py    one device's round as data
training.py    the local round, float64       averaging.py  the coordinator's step on C
variants.py    every variant by name          centralised.py  CentRAP, all data in one place
"""
