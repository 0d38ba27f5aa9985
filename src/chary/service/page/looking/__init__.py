"""What is looked at over time: alarms, the budget, datasets in a custodian's care."""
