"""`python -m barnabas` is the program `barnabas`."""

import sys

from barnabas.cli.main import main

sys.exit(main())
