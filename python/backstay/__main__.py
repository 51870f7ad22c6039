"""`python -m backstay`, and the command `backstay`."""

import signal
import sys

WITH_SIGNALS_OF_THEIR_OWN = ("run", "advise")  # once there is a job that they have to end


def main() -> int:
    """A Ctrl-C that comes while modules are loaded ends the process as any other one, without their traceback."""
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if raises:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from backstay.cli import main as command

    if raises and sys.argv[1:2] not in [[name] for name in WITH_SIGNALS_OF_THEIR_OWN]:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return command()


if __name__ == "__main__":
    sys.exit(main())
