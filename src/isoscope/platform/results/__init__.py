"""What analyses make, and pages read: tables, arms compared, published numbers beside."""
