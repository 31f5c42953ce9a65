// Package crash is the tests that end, stop and replace the real process.
//
// They build deltad with the tag crashtest, in which a process kills or stops
// itself at a named step and leases are short, and run it on files with SQLite
// and on S3 servers with Postgres. While they do, a strict reader follows each
// output through a store handle of its own: every pane it loads must be whole,
// versions and epochs must never go back. What is left in the end must be, byte
// for byte, what an undisturbed run makes of the same inputs.
//
// Rebuilds of a full index, promotions and rollbacks are killed at every step
// as runs are; the strict reader wants whole pairs of base and delta then.
//
// The servers come from e2e/cmd/withservers; the tests have the build tag
// integration.
package crash
