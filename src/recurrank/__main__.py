"""``python -m recurrank``."""

from recurrank.cli import main

if __name__ == "__main__":
    main()
