"""Connect's data: schemas, structs, records, and how Java prints them."""
