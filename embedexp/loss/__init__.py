"""loss"""
