"""From a Python step to native code: trace, graph, rewrite, fuse, plan, lower, run. Imported on the first `compile`."""
