"""What is said about a symmetry: values with their numbers, and the one place that makes words of them.

Nothing here knows data or models. Other rooms decide, and fill these values; they never read words back.
"""
