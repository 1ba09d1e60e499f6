"""Keep a store safe and keep promises about data: back it up while it is in use, export, delete with proof, restore.

    pip install foveal
    python examples/backup_and_delete.py --store agent.db

Needs no provider. Each part has a command: `foveal backup`, `export`, `delete`, `import`.
"""

import argparse
import io
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

import foveal
from foveal.stores import Store
from foveal.stores.deletion import delete_sessions
from foveal.stores.portable import export_session, import_session
from foveal.stores.sqlite.backup import back_up

NAMES = ("customer-1", "customer-2")


def main() -> int:
    parser = argparse.ArgumentParser(description="Back up a store, and delete a session from it.")
    parser.add_argument("--store", type=Path, default=Path("agent.db"))
    parser.add_argument("--backups", type=Path, default=Path("backups"))
    parser.add_argument("--keep", type=int, default=2, help="backups to keep")
    args = parser.parse_args()

    with foveal.open_store(args.store) as store:
        for name in NAMES:
            with foveal.Session(store, name, model="gpt-5") as session:
                session.append(foveal.user(f"I am {name}, and my number is 555 0100."), id="request-1")
                # The session is open and written to: a backup need not wait for it.
                if name == NAMES[0]:
                    print("backed up to", backup(args.store, args.backups, args.keep))
        print("deleted", forget(store, NAMES[1]))
        print("left:", *(f"{card.id} ({card.entries} entries)" for card in store.cards()))
    return 0


def backup(store: Path, folder: Path, keep: int) -> Path:
    """Copy the store to a new file, verify the copy, and remove all but the newest copies."""
    folder.mkdir(exist_ok=True)
    target = folder / f"{store.stem}-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}.db"
    report = back_up(store, target)
    if report.damage:  # the copy has it from the store: `foveal doctor` tells more
        raise SystemExit(f"{target} is damaged: {report.damage}")
    for old in sorted(folder.glob(f"{store.stem}-*.db"))[:-keep]:
        old.unlink()
        shutil.rmtree(f"{old}.artifacts", ignore_errors=True)  # large results lie beside the file
    return target


def forget(store: Store, name: str) -> str:
    """Delete a session and return the proof. Whoever has a copy can check it: the tombstone holds the hash of the log's end."""
    copy = io.BytesIO()
    exported = export_session(store, name, copy)
    tombstone = delete_sessions(store, [name]).tombstones[0]
    assert tombstone.chain == exported.chain
    # An export can be brought back, here into a store in memory. Copies elsewhere are yours to delete: backups, logs, exports.
    with foveal.open_store() as elsewhere:
        copy.seek(0)
        import_session(elsewhere, copy)
        assert [card.id for card in elsewhere.cards()] == [name]
    return f"{name}: {tombstone.entries} entries, chain {tombstone.chain[:12]}…"


if __name__ == "__main__":
    sys.exit(main())
