// Package bench measures deltad against others on equal data. It is a module
// of its own so that what it compares with is no dependency of the daemon.
//
//	go test -run '^$' -bench . ./...
//
// Every benchmark has a side for deltad and a side for each peer, in one run
// and on one machine; only the ratio between sides means anything elsewhere.
package bench
