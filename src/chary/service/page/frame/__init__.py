"""What every page stands in: who came, forms that are read, the layout."""
