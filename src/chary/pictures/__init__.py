"""Pictures of what was published: what is to be seen, and its drawing. All that they show is public."""

from chary.pictures.charts import Chart, Shape, Spot, spot_of

__all__ = ["Chart", "Shape", "Spot", "spot_of"]
