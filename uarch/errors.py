"""The one error that the toolkit shows to its user as a single line."""


class InputError(ValueError):
    """Something that the user gave (a file, a field, a program) is wrong.

    The message is one line that names what is wrong and what would be right. The command line prints it without a
    traceback and exits with status 2.
    """
