"""Measures several contestants in alternating rounds."""
