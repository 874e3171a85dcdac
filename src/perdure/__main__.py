"""`python -m perdure` is `perdure`."""

from perdure.doors.cli.main import main

if __name__ == "__main__":
    main()
