"""What copying topics to another cluster needs beside reading and writing: topics, translated offsets, groups."""
