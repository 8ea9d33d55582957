"""`python -m fedrap_coordinator`."""

import sys

from fedrap_coordinator.cli import main

sys.exit(main())
