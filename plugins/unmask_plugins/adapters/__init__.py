"""Attacks of other libraries, called through the door and judged like any other."""
