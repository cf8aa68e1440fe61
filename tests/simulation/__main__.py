"""``python -m tests.simulation``: run seeds, repeat one, make a failing one smaller, prove that defects are found."""

from tests.simulation.cluster.command import main

if __name__ == "__main__":
    main()
