"""The intermediate representation: graphs of equations, views, and their evaluation.

Modules, in reading order:

- `graph`: The intermediate representation: a straight list of equations over values.
- `interpreter`: The reference executor: a graph, equation by equation, on NumPy.
- `strided_view`: Strided views: the places of a moved value's elements in the memory of the value it was moved from.
- `graph_text`: The words of a graph's text: literals, types, origins and lines, written and read back.
- `shared_memory`: Memory that a step reads by several symbols: a write through one tensor is seen by all that lie
  there.
- `size_terms`: Sums of products of symbols: what symbolic sizes are made of, with the bounds that hold for every
  value.
- `symbolic_size`: Sizes known only when a program is called: polynomials of symbols that behave as the integers they
  stand for.
"""
