"""How the Python parts of ./stagecraft end where something outside of them goes wrong: without a trace of Python."""

import errno
import os
import signal
import sys

# What Python does about these is a trace. `| head` ends a command without a word, as Ctrl-C does.
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})   # ./stagecraft holds it back until now


def sentence(error: OSError) -> str:
    """What the system says, with the file that it is about, where it says that."""
    writes = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EBADF)
    about = error.filename or ("what is written" if writes else "")
    return (f"{about} cannot be written: " if writes else f"{about}: " if about else "") + (error.strerror or str(error))


def run(main) -> None:
    """Ends the process with the status that main() returns; with 1 and a sentence after an error of the system."""
    if sys.stdout is None:   # closed: what is written fails, and no file takes its number
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    sys.stdout.reconfigure(errors="surrogateescape")   # names of files that are not in UTF-8
    try:
        try:
            status = main()
        except SystemExit as end:
            status = end.code
        sys.stdout.flush()
    except OSError as error:
        status = say(sentence(error))
    except Exception as error:
        import traceback   # only here: it would delay each call
        place = traceback.extract_tb(error.__traceback__)[-1]
        status = say(f"a mistake of its own, {type(error).__name__} in {os.path.basename(place.filename)}:{place.lineno}: {error}")
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())   # Python tries again at its end
    sys.exit(status)


def misuse(text: str) -> None:
    """Ends the process as a wrong option does: in place of argparse's two lines."""
    say(text)
    sys.exit(2)


def say(text: str) -> int:
    print(f"stagecraft: {text}", file=sys.stderr)
    return 1
