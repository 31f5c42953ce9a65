// Package oracle holds `delta over base` against documents that are computed
// directly from records, over random histories.
//
// Nothing of the engine's arithmetic is used: the rules of documents, coverage,
// jumps, unread and stale objects are written here a second time, from the
// design alone, as plain loops over records. The engine is driven through its
// public API on stores in memory and a SQLite file, and after every change of
// CURRENT a reader's documents must be the oracle's, key by key and field by
// field.
//
// What the oracle takes from manifests are facts that depend on scheduling (the
// watermark, the base, which objects were inputs), and it holds those against
// the rules too before it uses them.
//
// In three of four histories processes find the slices of those before them, in a
// directory, in the bucket or in both, and in one of these damage is done to
// what lies there whenever a process ends.
//
// In one of four histories the window is long (long_test.go), in one of three a
// column gets wider and narrower again (widen_test.go), and every pane over a
// long window, as every sixth of the others, is computed again without anything
// that was kept, which must make the same bytes.
//
// A history is a function of its seed:
//
//	go test ./oracle -run TestHistories              300 histories, under -race fewer
//	ORACLE_HISTORIES=2000 go test ./oracle           as many as one likes, from seed ORACLE_FIRST on
//	ORACLE_SEED=17 go test ./oracle -v               one of them, with its events
package oracle
