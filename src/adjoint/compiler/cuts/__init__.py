"""Steps whose Python asks for values: a path through the answers is a chain of programs, with the questions between.

Modules, in reading order:

- `staged_entry`: One path through the decisions of a step: its programs run in turn, with the questions and calls
  between them.
- `stages`: Cuts: a traced step that asks for values becomes programs in turn, each up to what the next question
  takes.
- `replay`: An eager run of a step in whose call something took place already: that does not take place again.
"""
