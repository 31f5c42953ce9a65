// Package faults runs deltad's engine against real servers through paths that
// fail, and holds it to what it promises of outages: nothing is lost, no
// reader ever sees half a pane or goes back, the state store agrees with
// CURRENT afterwards, and the first trigger after the fault ends publishes
// what is due.
//
// Package s3proxy breaks the path to the S3 servers, request by request;
// package tcpproxy that to PostgreSQL, statement by statement. Beside the
// pipeline under test a control runs over the same raw objects by a path
// without faults: after every recovery the two panes must have the same bytes.
//
// The tests need servers and therefore the build tag integration; see
// e2e/cmd/withservers. What they cover is in docs/reliability.md.
package faults
