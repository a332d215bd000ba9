"""Speed and memory of metasym beside other libraries, and how they grow; not run by the tests."""
