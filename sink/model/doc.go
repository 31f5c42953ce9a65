// Package model is an exhaustive bounded model of how panes are published: every order of every step of two leaders, a store that loses,
// delays and answers requests as it likes, a state store that is restored from a backup, and a reader, up to bounds that each scenario
// names. It has no code of its own, only tests; docs/decisions/0004-protocol-model.md says what is modelled and what is not.
//
// # What is real
//
// Every decision about CURRENT is taken by package sink itself: what a put's answer and a second look mean (Attempt), who shuts out whom
// (Owner.Fences), which change may follow (Transition, NextPane), what a collection deletes, condemns and drops (PlanCollection). The
// model turns its states into sink's values, asks, and turns the answer back, so a change of those functions is checked here.
//
// # What is an abstraction
//
// The loops around them (Sink.Claim, Sink.Change, reconciliation, step 9, resets, the order of a run's writes) are steps of the model,
// written from the design and to be kept like the code: one step for each request or transaction, since only between those can anything
// happen. A manifest is what links and names it, data is one object, a partition is a number. No clock exists: leases end and data grows
// old whenever that does most harm.
package model
