"""Is a title real, or was it made by a machine?"""
