"""mask_schedule"""
