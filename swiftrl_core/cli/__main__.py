"""`python -m swiftrl_core.cli` is `swiftrl`."""

import sys

from swiftrl_core.cli import main

sys.exit(main())
