// Package sink publishes panes: it writes data files and manifests, moves the one pointer that readers follow, walks its history,
// recovers it, and collects what nobody can read any more.
//
// # What it promises
//
// Commit is one conditional PUT of CURRENT. Before it nothing of a run is visible, after it all of it is. Truth is in the bucket: nothing
// here asks the state store anything, so a lost or restored database cannot corrupt an index.
//
// # Why it is safe
//
// A leader holds an owner: an epoch that only grows and a random nonce (the epoch alone may be given out twice by a restored database).
// The argument rests on the numbered invariants; each is marked where the code keeps it.
//
//  1. CURRENT is replaced only by a PUT that names the ETag its author read, and every body carries a fresh change id, so no two bodies
//     and no two ETags of CURRENT are ever equal: an ETag that still matches means that nothing happened in between.
//  2. version rises by exactly one with every change (recover alone leaps, above everything ever seen).
//  3. A leader's first change is a claim: the same targets under its own epoch and nonce. Once it is in, every request of an older leader
//     that is still on its way carries a stale ETag and fails. An owner with a higher epoch, or an equal one with another nonce, is never
//     overwritten. The same goes for an own change that a leader stopped waiting for: it claims again before it takes that change for lost
//     (ClaimOptions.Unsettled).
//  4. After a put of CURRENT that was not acknowledged nothing is concluded from the answer, whatever it was (412 and 409 may be the echo
//     of the own first attempt, a timeout may be applied later). CURRENT is read again and decides: see Attempt.
//  5. Everything that CURRENT names was completely written before: data files, then the manifest, then CURRENT. Files and manifests are
//     created, never replaced, and their names are never used twice; a manifest's hash stands in CURRENT, a file's hash in its manifest.
//     A pane names the base it was computed for, and both stand in one CURRENT: they change together or not at all.
//  6. watermark and progress move only as the reason allows: a publish lies beyond progress, a refine and a claim keep both, only reset,
//     rollback and recover may go back; the base changes in a promotion or a rollback alone (Transition).
//  7. Data of a run or a generation is deleted only while CURRENT lists its id as condemned, no kept pane is built on condemned data, and
//     a condemned id is never a target again. Who goes back to a pane or forward to a base looks whether its data is there (Present) after
//     it has read the CURRENT that it replaces. Since ids are never reused, a delete that arrives late, even from a leader that has lost its lease, hits nothing
//     that is alive.
//
// # What it does not do
//
// It takes no lease, keeps no journal, starts no goroutine that outlives a call and reads no clock. One goroutine per pipeline makes all changes of CURRENT;
// after ErrUnsettled or a crash the caller claims and reconciles its journal by Walk before it makes the next.
package sink
