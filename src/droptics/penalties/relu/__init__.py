"""The exact criterion of ReLU networks: the last masks summed by algebra, the earlier ones listed."""
