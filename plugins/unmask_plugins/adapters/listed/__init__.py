"""Which attacks of each library are offered: plain tables, read without importing the library."""
