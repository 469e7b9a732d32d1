"""How fast everything is here, and beside what: `swiftrl bench` runs these modules."""
