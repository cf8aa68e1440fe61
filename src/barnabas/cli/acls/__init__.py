"""``barnabas acls``: list, add and remove ACLs."""
