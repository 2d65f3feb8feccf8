"""backbone"""
