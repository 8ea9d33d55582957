"""Settings of the whole suite."""

from hypothesis import HealthCheck, settings

# No deadline: the machine may be busy, and a test must fail for its promise, not for its time.
settings.register_profile(
    "fedrap", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fedrap")
