"""``python -m tests.simulation``: run seeds, repeat or shrink a failing one, prove that the checks find defects."""

from tests.simulation.cluster.command import main

if __name__ == "__main__":
    main()
