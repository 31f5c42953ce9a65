// Package layers writes a large pane as what has become of some of its keys since the live one. Sink.Manifest has the format: layer 0 is a
// whole pane, each further one has documents, tombstones and keys that have left, and of all that is said of a key the highest layer counts.
//
// What it promises:
//
//  1. The rows of a pane, its layers resolved, are those that its fold emits: the same function of configuration, coverage, inputs and base
//     as those of a snapshot. They are found by comparing every row of the fold with every row of the live pane, in one pass in key order,
//     and not from what the window says it touched.
//  2. A snapshot, layer 0, is complete and its bytes are a function of its inputs. The bytes of a further layer are a function of the rows
//     of two panes, so of the inputs of both: two outputs with one history of panes have the same ones, two that came to the same inputs
//     another way need not.
//  3. A layer says one thing of a key: a document that is new or differs, a tombstone that was none, or that the key has left the pane.
//     The last is not a tombstone: what a base says of the key is seen again, as it would be had the pane never had it.
//  4. A layer is put on the live pane alone, and only where the process wrote that itself and so has a Log of its rows. A reset and a
//     rollback write no rows, and what comes after them, after a promotion, a new leader or a start is a snapshot, as it is where columns,
//     configuration, base or pending fields differ.
//  5. Decide is a pure function of two manifests and the settings. Panes have at most Most layers over their snapshot, and those together at
//     most about half of its bytes: so much more than the pane a reader reads at the worst, beside the layer that goes beyond it.
//  6. Memory: a block of the log that is read, one of that which is written, and a block of rows.
//
// # Why a digest is enough
//
// A document is taken for unchanged if 128 bits of a hash of all its values, bit by bit, are: two hashes of package maphash under two seeds,
// random in each process and never stored or shown, so that nobody can aim at a collision. If a changed document is missed with a chance of
// 2⁻¹²⁸, an index of 10⁹ documents all of which change in every run, run every 30 seconds for a year (10⁶ panes), misses one in 10²³ years.
// With 64 bits it would be one in 20,000 years, which is little too, but a wrong document is the one thing nobody would notice: counts may be
// made on that, panes may not. Were it to happen, the next snapshot would end it, and `deltad verify --recompute` would find it.
package layers
