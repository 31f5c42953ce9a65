// Package acceptance runs the deltad binary as people do, against real S3
// servers of different make and a real Postgres, and holds it to what it
// promises: one run at the newest partition, idle steps that write nothing,
// the same bytes whatever the order, exit codes, a daemon that drains, a reset
// through HTTP that survives a kill.
//
// The tests need servers and therefore the build tag integration; see
// e2e/cmd/withservers.
package acceptance
