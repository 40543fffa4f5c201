"""The command line: ``kclient`` or ``python -m kclient.cli``."""
