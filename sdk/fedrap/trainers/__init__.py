"""Three engines for one algorithm: NumPy (the reference), ONNX Runtime and torch.

Importing this package imports neither onnxruntime nor torch; a trainer does so when it is made.
"""

from fedrap.trainers.protocol import Trainer, TrainerUnavailable
from fedrap.trainers.select import Choice, choose_trainer, make_trainer

__all__ = ["Choice", "Trainer", "TrainerUnavailable", "choose_trainer", "make_trainer"]
