"""Forms made from the calls, and answers drawn."""
