"""Fused attention kernels as records: our own for GPUs, and adapters to cuDNN's and to TPUs'.

A module here is imported when its kernel is asked for, and not before: each loads its own compiler.
"""
