"""The files that Locust itself writes (--csv, --json-file, --html): one that cannot be written is said by its name.

Locust would end with a traceback, before its results or ours are handed over.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import locust.stats
from locust.env import Environment
from locust.html import get_html_report, process_html_filename
from locust.stats import RequestStats, StatsCSVFileWriter

from loadtest.errors import LoadTestError
from loadtest.statistics.files import make_folder, refused, write_whole

Lost = Callable[[LoadTestError], None]


class LocustFiles:
    """Writes what Locust would write.

    Attributes:
        lost: is told of a file that cannot be written while the run goes on.
    """

    def __init__(self) -> None:
        self.lost: Lost = _raise
        self._html = ""

    def install(self) -> None:
        """Called before Locust makes its writers, which it looks up by these names."""
        files = self

        class CsvFiles(_CsvFiles):
            def tell(self, error: LoadTestError) -> None:
                files.lost(error)

        locust.stats.StatsCSVFileWriter = CsvFiles  # type: ignore[misc]
        locust.stats.save_stats_json = _save_json

    def take_html(self, options: Any) -> None:
        """Have `write_html` write the file of --html: Locust would do it before anything is handed over."""
        self._html, options.html_file = options.html_file or "", None

    def write_html(self, environment: Environment) -> None:
        """The file of --html, if there is to be one. Raises LoadTestError."""
        if not self._html:
            return
        options = environment.parsed_options
        assert options is not None, "Locust's command line has been read"
        options.html_file = self._html
        process_html_filename(options)
        path, options.html_file = Path(options.html_file), None
        make_folder(path.parent, option="--html")
        write_whole(path, get_html_report(environment, show_download_link=False), option="--html")


class _CsvFiles(StatsCSVFileWriter):
    """Ends with the first file that cannot be written, and the run goes on."""

    def tell(self, error: LoadTestError) -> None:
        raise NotImplementedError

    def stats_writer(self) -> None:
        try:
            super().stats_writer()
        except OSError as error:
            self.tell(self._refused(error))

    def close_files(self) -> None:
        try:
            super().close_files()
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> LoadTestError:
        # Which of the four it is, Python does not say.
        return refused(Path(f"{self.base_filepath}_*.csv"), error, option="--csv")


def _save_json(stats: RequestStats, filename: str) -> None:
    write_whole(Path(f"{filename}.json"), json.dumps(stats.serialize_stats(), indent=4), option="--json-file")


def _raise(error: LoadTestError) -> None:
    raise error
