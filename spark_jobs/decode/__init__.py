"""Record batches to Arrow, without a Python object a record.

``walk`` finds batches and records in raw bytes (compiled when llvmlite is there), ``columns`` gathers what it found
into Arrow arrays, ``decoder`` joins the two and knows compression, isolation and offset ranges.
"""
