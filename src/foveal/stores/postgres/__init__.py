"""The PostgreSQL store: its connections, its tables, its commits, its leases and the artifacts in it.

It needs the extra `postgres` (psycopg 3); `foveal.open_store` loads it for a place that begins with `postgresql://`.
"""
