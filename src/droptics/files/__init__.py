"""Files: one way to write them and one policy for reading what others wrote.

Writing replaces in one step, so that a reader sees the old file or the new one. Reading runs nothing from a file:
each reader lists what it allows, refuses all else by name, and compares sizes before it takes memory.
"""

from droptics.files.writing import check_folder, check_target, replacing, write_text

__all__ = ["check_folder", "check_target", "replacing", "write_text"]
