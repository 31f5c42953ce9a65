// Package golden holds the real binary to one SHA-256: the same records give
// the same documents whatever their order, the objects they are split into,
// the number of workers, the instructions the compiler may use, and the
// processor.
//
// The fixture is made here, from a seed: every combine fn over values chosen
// to be hard (NaN payloads, both zeros, subnormals, numbers that swallow each
// other, the ends of every integer, ties in time and content), filters, reaches
// and expressions. What is committed is the hash of its documents, and
//
//  1. every variant of the input has those documents, and data files that are
//     the same to the byte, in panes and in bases, and the same accumulators;
//  2. so does every build: GOAMD64=v1, GOAMD64=v3, which has fused multiply and
//     add, and arm64, which fuses unasked. A build that this machine's
//     processor does not run is run by an emulator (qemu-user); the test's log
//     says what ran, and the native build must.
package golden
