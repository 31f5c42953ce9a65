// Package bench measures deltad against others on equal data. It is a module
// of its own so that what it compares with is no dependency of the daemon.
//
// Whole runs of the real daemon, against DuckDB on the same files: package
// course says what is measured, cmd/tickbench runs it and writes
// docs/performance.md.
//
//	go run ./cmd/tickbench -h
//
// Single combine fns, against libraries for the same:
//
//	go test -run '^$' -bench . ./...
//
// Every measurement has a side for deltad and a side for each peer, in one run
// and on one machine; only the ratio between sides means anything elsewhere.
package bench
