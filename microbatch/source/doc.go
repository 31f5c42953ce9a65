// Package source finds partitions and their objects by listing: which is the newest, what lies in a range, what has vanished.
//
// Two questions, two costs:
//
//   - Newest answers the cold question, from nothing, over any history. Where byte order is time order it takes at most
//     10 + log2(granules of history / 1,000) listing calls per prefix, and at most 10 in a five-level layout such as %Y/%m/%d/%H/%M.
//   - Scan answers the steady question, newest and inputs at once, with one ranged listing: one call per prefix and per 1,000 objects.
//
// Layouts whose byte order is not time order are listed directory by directory; Cost says what that takes.
//
// Invariants:
//
//  1. A partition is visible only through an object that is not ignored; a newest prefix that is empty, or holds ignored things only,
//     gives way to the one before.
//  2. What is in the future or implausible never hides a real partition and never costs calls in proportion to its amount: listings stop
//     behind the newest eligible prefix.
//  3. Trees that can hold nothing of use (ignored, foreign, quarantined) are jumped over once a page ends inside one.
//  4. A listing that cannot be true is an error that wraps store.ErrBadListing, never "no partitions": a repeated token, entries that go
//     backward, repeat or lie outside what was asked, or pages without end that bring nothing.
//  5. LastModified takes no part in anything. Keys are passed on exactly as the store gave them.
//
// How the newest is found where byte order is time order. First one page from 60 granules before the horizon, which is almost always the
// answer, or, with many objects in each partition, where bisecting by time begins. If it shows nothing, a binary search over the directories that contain that point (its month, its year or its day) finds the
// innermost that holds something at or before it, one page each; that is what keeps junk in the future, in the same year or day, from
// being descended into. From there one delimiter listing per level, newest child first; a level of more than 1,000 children is bisected by
// time. If three prefixes in a row turn out to hold nothing, bisection by time over plain pages takes over, so that long runs of empty
// prefixes cost a logarithm too.
//
// New does no I/O. A Source has no state and may be used from several goroutines. Errors of the store are passed on wrapped; nothing is
// retried here. What was found before an error is dropped: there are no partial answers.
package source
