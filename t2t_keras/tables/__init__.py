"""The paper's Tables 1 to 4 beside what this project counts and measures."""
