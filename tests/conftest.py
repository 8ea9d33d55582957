"""Settings of the whole suite."""

from hypothesis import HealthCheck, settings

from fedrap_coordinator.store import engine

# No deadline: the machine may be busy, and a test must fail for its promise, not for its time.
settings.register_profile(
    "fedrap", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fedrap")

# What a failing power supply would lose is not what these tests are about; a kill -9 loses nothing.
engine.SYNCHRONOUS = "NORMAL"
