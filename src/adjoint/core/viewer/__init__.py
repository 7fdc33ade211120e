"""The viewer of graphs: a document of boxes, edges, lines and steps becomes one HTML page that needs nothing else.

Modules, in reading order:

- `document`: A document of the viewer: graphs with boxes that open, their source lines, and a walk.
- `source_excerpts`: Excerpts of the user's files: the lines that a document names, and those around them.
- `page`: The HTML page of a document, which a browser or a notebook shows.
- `op_kinds`: Kinds of ops, by which the viewer colours them: from the module in which an op is declared, and by name.
"""
