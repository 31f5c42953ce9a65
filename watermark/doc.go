// Package watermark is the state store of deltad: who may write (lease and
// epoch), how far a pipeline is (a copy of what CURRENT says), what each run
// did (the journal), what became of each partition (the ledger), who asked for
// what (audit, intents, requests), and what becomes of each full index
// (rebuilds, bars, pins).
//
// The bucket is the truth that readers see; this store is the memory of the
// writers. Losing it, or restoring an old copy, may cost work and never
// corrupts an index: the leader rebuilds the copy from CURRENT.
//
// What every implementation promises:
//
//  1. Epochs only grow. [Leases.Acquire] hands out 1 + max(row, what the
//     caller saw in CURRENT), with a nonce nobody had before.
//  2. A lease is free only when it was released or when the database's own
//     clock is past its expiry. No caller's clock decides that.
//  3. Every write that a leader makes is fenced: it happens in the transaction
//     that has locked the lease row and found the leader's own epoch and nonce
//     in it, else it is [ErrFenced] and nothing is written.
//  4. The copy of CURRENT never goes back a version: an older publication that
//     is journalled late fills in its run and its ledger entries and moves
//     neither the watermark nor a newer ledger entry. Only an audited
//     [Pipelines.AdoptCurrent] sets it back.
//  5. Each write is idempotent by an id that the caller chose: repeated after
//     an answer that was lost, it changes nothing and reports no error.
//  6. An answer is never guessed. When a COMMIT ends without a reply the
//     implementation looks again by that id before it answers; when it cannot
//     look, the error is [ErrUnavailable] and the call may be repeated.
//  7. A row that cannot be read is [ErrCorrupt], naming pipeline and column.
//     It is never taken for an absent row.
//  8. The audit trail is append-only, refused by the database itself; what is
//     older than [AuditKept] may be forgotten, from the oldest end.
//  9. Timestamps that say when something happened here come from the
//     database's clock. Those that are data (watermark, partition, planned at)
//     are the caller's, kept to the microsecond, in UTC; the zero time is null.
//  10. At most one rebuild of a pipeline is queued or running, a scheduled time
//     is used up once by any number of callers, and what must not undo a
//     rollback is stored in the transaction that decides it.
//
// What it does not do: it holds no session state. No lock, prepared statement
// or setting outlives a call, so a transaction-mode pooler and a recycled
// connection are harmless. It decides nothing about partitions and coverage.
//
// Failure classes, never mixed in one error: [ErrUnavailable] is worth
// repeating at the next trigger; [ErrFenced] and [ErrHeld] mean somebody else
// leads; [ErrCorrupt], [ErrSchemaTooNew] and [ErrSchemaPending] stop with
// guidance; the others are the caller's mistake or a lost race, and say which.
package watermark
