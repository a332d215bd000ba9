"""``python -m metasym``: the command line."""

import sys

from metasym.cli import main

sys.exit(main())
