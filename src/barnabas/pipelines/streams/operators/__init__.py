"""What each operator does with the rows of one partition in one batch. Nothing here knows Spark."""
