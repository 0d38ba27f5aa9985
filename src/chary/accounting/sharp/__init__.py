"""The sharpest test at one Renyi order: how fast a chance to hit may climb, tables of it, its event, its errors."""
