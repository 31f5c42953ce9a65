// Package partition knows what a partition is: how a layout maps time intervals to prefixes and back, which partitions follow each other,
// which are eligible, what identifies the objects in one, and the words the ledger has for what became of it.
//
// Everything here is pure: no I/O, no clock (now is an argument), no state. All values may be used from several goroutines at once.
//
// What it promises:
//
//  1. Partitions tile time. A calendar's starts ascend strictly, the end of a partition is the start of the next, and every instant from
//     1970 on lies in exactly one partition; in a zone with daylight saving too, where a repeated local hour is one partition of two
//     hours and a skipped one does not exist.
//  2. A key has one meaning. Parse gives every key exactly one verdict, and a key it accepts formats back to the same partition. What only
//     looks like a partition (a month 13, an unpadded 9 under a padded layout, the year 9999, an hour that daylight saving skipped) is
//     quarantined with the reason, never guessed at.
//  3. Where Lexical says so, byte order of keys is time order of partitions, whatever the keys.
//  4. A fingerprint depends on the set of objects, not on the order in which they were met.
//  5. Keys are taken as they are: nothing is escaped, unescaped, cleaned or folded.
//
// A partition's prefix is a directory: its objects are the keys below prefix + "/". Times are UTC instants; a time zone only decides which
// local label an instant has. Plausible years are 1970 to 2199; %y means 2000 to 2099; %s has ten digits, leading zeros for instants before 2001-09-09.
package partition
