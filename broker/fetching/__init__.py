"""What a fetch needs beside the log: sessions, the choice of a replica, old formats."""
