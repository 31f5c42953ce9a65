package sink

import "errors"

// What a caller branches on. Every error returned wraps at most one of them.
var (
	// ErrFormat: a file of an unknown major format. A newer deltad wrote it; stop.
	ErrFormat = errors.New("unknown format, written by a newer deltad")
	// ErrFenced: another leader owns CURRENT. Stop leading.
	ErrFenced = errors.New("fenced by another leader")
	// ErrClaimAgain: CURRENT is owned by an older leader although this one has claimed or should have. Claim, then plan again.
	ErrClaimAgain = errors.New("an older leader owns CURRENT: claim again")
	// ErrMoved: CURRENT is this leader's, at another version than the change was planned for. Plan again from what is there.
	ErrMoved = errors.New("CURRENT has moved: plan again")
	// ErrUnsettled: the outcome of a change is not known. Claim with ClaimOptions.Unsettled, reconcile, then plan again.
	ErrUnsettled = errors.New("outcome of a change of CURRENT is not known")
	// ErrForeignState: another state store's leader owns CURRENT. Only Adopt goes on.
	ErrForeignState = errors.New("CURRENT belongs to another state store")
	// ErrLostCurrent: CURRENT is absent or unreadable although something was published. Only recovery goes on.
	ErrLostCurrent = errors.New("CURRENT is lost")
	// ErrNoPane: nothing was published yet.
	ErrNoPane = errors.New("no pane was published yet")
	// ErrNeedReason: recovery can only go on unproven, which takes a reason.
	ErrNeedReason = errors.New("no manifest is known as published: a reason is needed")
	// ErrCondemned: the change would name data that is condemned or gone.
	ErrCondemned = errors.New("the target is condemned or gone")
	// ErrExists: a create-only name holds something else.
	ErrExists = errors.New("exists with other content")
	// ErrCorrupt: bytes do not have the hash they were published with.
	ErrCorrupt = errors.New("content does not match its hash")
	// ErrTransition: a change that its reason does not allow. A defect of the caller.
	ErrTransition = errors.New("change not allowed for its reason")
)
