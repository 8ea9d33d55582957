"""Three engines for one algorithm: NumPy (the reference), ONNX Runtime and torch.

Importing this package imports neither onnxruntime nor torch; a trainer does so when it is made.
"""

from fedrap.trainers.pick import Choice, choose_trainer, make_trainer
from fedrap.trainers.protocol import Trainer, TrainerUnavailable

__all__ = ["Choice", "Trainer", "TrainerUnavailable", "choose_trainer", "make_trainer"]
