"""``metasym discover`` and ``ms.discover`` as runs; the search itself is in :mod:`metasym.discovery`."""
