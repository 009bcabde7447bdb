"""The picture of the world: fed by watch events and by what actions learned, read as snapshots."""
