"""Play random clients against sessions that follow them: every move must leave a prompt that says the client's list.

python scripts/follow_test.py --clients 2000        # 24,000 moves; exit 1 and the moves that went wrong, if any did
"""

import argparse
import sys

from foveal.testing.list_clients import follow_client

MOVES = 12


def main() -> int:
    """Play the clients and print what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    wrong = [line for seed in range(args.first, args.first + args.clients) for line in follow_client(seed, MOVES)]
    print("\n".join([*wrong, f"{args.clients * MOVES:,} moves of {args.clients:,} clients, {len(wrong)} wrong"]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
