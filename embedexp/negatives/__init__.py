"""negatives"""
