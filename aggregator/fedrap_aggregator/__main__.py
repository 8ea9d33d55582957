"""`python -m fedrap_aggregator`."""

from __future__ import annotations

import sys

from fedrap_aggregator.cli import main

sys.exit(main())
