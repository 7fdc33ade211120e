"""Rules of `ad.doctor` on the program's text: what no tensor shows, such as comparisons and what a buffer is given.

Modules, in reading order:

- `branches`: Rules on where a line stands: breaks and returns within a loop, steps beside a print, counts begun in
  each turn.
- `calls`: Rules on single calls: arguments that mean something else, blocks that are not entered, rates that rise.
- `counts`: Rules on what is counted and compared: right answers divided by batches, types compared with texts.
- `datasets`: Rules on datasets: a label of another sample, and pictures that are turned without what belongs to them.
- `episodes`: Rules on episodes: random actions where the best were meant, and transitions that lead nowhere.
- `epochs`: Rules on loops over epochs: totals and counters never set back, iterators that are used up, idle
  variables.
- `slips`: Rules on slips of writing: a sign for an operator, a comparison the wrong way round.
- `splits`: Rules on parts of the data: slices that overlap, statistics of all rows, one model for all folds.
- `text_rule`: Base of rules that read the program's text when the watch ends.
- `text_rules`: The rules on the program's text that come before those on its steps, in their order.
- `names`: Rules on names: functions that read a loop's variable too late, counters that share a name, results taken
  in turn.
- `standing`: Rules on what a loop was to change and does not: schedules that stand still, values that are lost, kept
  or shared.
- `choices`: Rules on options and conditions: keys and words that do not occur, arguments that are swallowed, what
  never holds.
- `updates`: Rules on what loops update: counters that stand still, averages that nobody reads, steps away from a
  copy.
"""
