"""`python -m backstay`: the same as the command `backstay`."""

import sys

from backstay.cli import main

sys.exit(main())
