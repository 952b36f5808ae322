"""The pencil-and-paper worksheet, as Markdown or as an HTML page to print."""
