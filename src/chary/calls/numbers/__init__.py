"""Numbers that are always charged: releases, histograms, quantiles, fractions."""
