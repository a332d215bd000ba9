"""The command line under ``torchrun``, where every rank but 0 fails when it writes a file."""

import os
import sys

from metasym.cli import main
from metasym.training import checkpoint, metrics


def refused(*arguments, **options):
    sys.exit(f"rank {os.environ['RANK']} wrote: {arguments}")


if os.environ["RANK"] != "0":
    checkpoint.os.fsync = refused
    metrics.MetricsFile.__init__ = refused
sys.exit(main())
