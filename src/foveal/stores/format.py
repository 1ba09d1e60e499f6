"""The versions of everything that Foveal writes to disk, and the promise about old stores.

**A store that any released Foveal wrote can be opened, read, verified and appended to by every later one.** Payloads are never
rewritten: a shape of an entry that was once written is understood for ever and upgraded while it is read. A store of a newer
Foveal is refused (`SchemaTooNew`) and never guessed at. Derived data (snapshots, search indexes, sidecars) is promised nothing:
if its version is another one, it is ignored and made again from the log.

Schema 4 gives sessions titles and tags. Schema 3 gives each session a place for its scope, and scopes notes. Schema 2 chains
payloads by their digest, gives each session a secret and a successor in the order of names, and has leases and tombstones. A
store of an older schema is verified and upgraded when it is opened, in one transaction (`stores.sqlite.version_1`, `version_2`,
`version_3`). In PostgreSQL, schema 2 has the titles and tags, and schema 3 the place of artifacts that lie elsewhere.

| version          | now     | written to                               | if it is another one             |
|------------------|---------|------------------------------------------|----------------------------------|
| `SCHEMA_VERSION` | 4       | the store's file, `PRAGMA user_version`  | older: upgraded; newer: refused  |
| `POSTGRES_SCHEMA` | 3      | the table `versions` of the schema       | older: upgraded; newer: refused  |
| body codec       | `=` `~` | the first byte of each payload; `#` if it is encrypted | refused as damage  |
| `PROJECTION`     | 8       | the key in each snapshot (`project.view`)| the snapshot is ignored          |
| `FRAME`          | 2       | the same key (`session.model_setup`)     | the snapshot is ignored          |
| `INDEX_VERSION`  | 2       | each index file, `PRAGMA user_version`   | the index is made anew           |

`tests/stores/fixtures` holds a store as each version of a format left it; `tests/stores/test_old_stores.py` opens them and checks
this table.
"""

APPLICATION_ID = 0x464F5645  # "FOVE"
"""The `PRAGMA application_id` of a store's file."""
SCHEMA_VERSION = 4
"""The version of the tables of a store's file."""
POSTGRES_SCHEMA = 3
"""The version of the tables of a store in PostgreSQL."""

ENVELOPE = b"foveal-k"
"""The beginning of a session's secret that holds its data key, wrapped: a random one of 32 bytes is shorter than any of them."""

ENCRYPTED = b"#"
"""The first byte of a payload that is under the data key of its session (`stores.data_key`)."""

INDEX_APPLICATION_ID = 0x464F5658  # "FOVX"
"""The `PRAGMA application_id` of a search index."""
INDEX_VERSION = 2
"""The version of the tables of a search index, and of how words are made."""
