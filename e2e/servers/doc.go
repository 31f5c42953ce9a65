// Package servers starts the real servers that deltad's integration tests run
// against: one PostgreSQL and two S3 servers of different make (versitygw and
// SeaweedFS), each throw-away, each in a temporary directory of its own.
//
// What it promises:
//
//  1. Nothing is reachable from outside: every port is bound to 127.0.0.1,
//     nothing reports telemetry.
//  2. A server that Start returned answers: PostgreSQL has run a query, an S3
//     server has accepted a PUT (SeaweedFS answers requests seconds before it
//     can store anything).
//  3. A server never outlives the program that started it. Stop ends it by
//     process id and removes its files; should the program die first, the
//     kernel ends the server (Linux; the temporary directory then stays).
//  4. Kill is a crash (SIGKILL, no warning). Restart brings the same server
//     back on the same port with the same data.
//
// Data is safe against Kill, not against power loss: nothing is fsynced.
// PostgreSQL refuses to run as root, so when the caller is root it runs as the
// user postgres, or nobody.
//
// Tests do not start servers themselves: e2e/cmd/withservers starts them once,
// and tests read where they are with FromEnv.
package servers
