"""Files and frames: how they are written, read line by line, and brought to the few types chary computes with."""
