// Package layers writes a large pane as what has become of some of its keys since the live one. Sink.Manifest has the format: layer 0 is a
// whole pane, each further one has documents, tombstones and keys that have left, and of all that is said of a key the highest layer counts.
//
// What it promises:
//
//  1. The rows of a pane, its layers resolved, are those that its fold emits: the same function of configuration, coverage, inputs and base
//     as those of a snapshot. A window that has emitted the live pane tells what has become of its rows (Patch): its touched keys, and only
//     those of them whose rows differ. The rest of its documents are those that a snapshot would be written of too, and the canary draws from
//     all of them. Where it cannot tell, every row of the fold is compared with every row of the live pane in one pass in key order (Differ).
//     Both come to the same layer.
//  2. A snapshot, layer 0, is complete and its bytes are a function of its inputs. The bytes of a further layer are a function of the rows
//     of two panes, so of the inputs of both: two outputs with one history of panes have the same ones, two that came to the same inputs
//     another way need not.
//  3. A layer says one thing of a key: a document that is new or differs, a tombstone that was none, or that the key has left the pane.
//     The last is not a tombstone: what a base says of the key is seen again, as it would be had the pane never had it.
//  4. A layer is put on the live pane alone, and only where the process wrote that itself and so has a whole Log of it. A reset and a
//     rollback write no rows, and what comes after them, after a promotion, a new leader or a start is a snapshot, as it is where columns,
//     configuration, base or pending fields differ.
//  5. Decide is a pure function of two manifests and the settings. Panes have at most Most layers over their snapshot, and those together at
//     most about half of its bytes: so much more than the pane a reader reads at the worst, beside the layer that goes beyond it.
//  6. Memory: a block of each part of the log that is read, one of that which is written, and a block of rows.
//  7. The Log that layers are made of is the one that documents are counted against, and the hashes in it are those that the fold emits with
//     its documents, or else the same made of them. Where no layer can come over a pane, its Log serves counts alone and is less. A layer
//     that was told of is a part over the Log before, and the next snapshot makes one part of all: Most of them at the most.
//
// # Why a digest is enough
//
// A document is taken for unchanged if 128 bits of a hash of all its values, bit by bit, are (window.Hasher): two hashes that have nothing to
// do with each other, of secrets that are random in each process and never stored or shown, so that nobody can aim at a collision. If a changed
// document is missed with a chance of 2⁻¹²⁸ for each two of its values, an index of 10⁹ documents of 100 values all of which change in every
// run, run every 30 seconds for a year (10⁶ panes), misses one in 10¹⁹ years.
// With 64 bits it would be one in four years, which is little too, but a wrong document is the one thing nobody would notice: counts may be
// made on that, panes may not. Were it to happen, the next snapshot would end it, and `deltad verify --recompute` would find it.
package layers
