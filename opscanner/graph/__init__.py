"""The graph database: what a scan found, in tables that answer SQL. The only room that imports SQLAlchemy."""
