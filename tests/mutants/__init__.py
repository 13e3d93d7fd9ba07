"""Mutation tests: one planted mistake at a time, and whether the test suite notices. See README."""
