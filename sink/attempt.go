package sink

import (
	"fmt"
)

// Step is what an Attempt wants next.
type Step uint8

// The steps. Send and Read ask the caller to do something and report it; the others are final.
const (
	Send       Step = iota // put Body under the condition of Base
	Read                   // read CURRENT and report it
	Done                   // the change is in
	Moved                  // CURRENT is mine at another version
	ClaimAgain             // an older leader owns CURRENT
	Fenced                 // another leader owns CURRENT
	Lost                   // CURRENT is gone
)

var stepNames = [...]string{"send", "read", "done", "moved", "claim again", "fenced", "lost"}

func (s Step) String() string {
	if int(s) < len(stepNames) {
		return stepNames[s]
	}
	return fmt.Sprintf("step(%d)", uint8(s))
}

// Attempt is one change of CURRENT on its way: a value without I/O, so that every order of answers can be tried.
//
// It starts at Send. A put that was acknowledged is Done, and nothing else is: every other answer, refusals included, leads to Read
// (Invariant 4). What was read decides:
//
//	no CURRENT, none was expected    Send again
//	no CURRENT, one was expected     Lost
//	owner's epoch above mine, or equal with another nonce    Fenced
//	mine, with my change id          Done
//	mine, at the version planned on  Send again: the request is lost or still on its way. The same bytes go out, so whichever
//	                                 copy is applied first makes the other fail
//	mine, at another version         Moved
//	owner's epoch below mine         ClaimAgain
//
// A claim differs in the last two lines: it may replace an older owner, but only with targets copied from the CURRENT it read, so it is
// built anew by its caller.
type Attempt struct {
	me   Owner
	base Head
	want Current
	step Step
	head Head
}

// NewAttempt starts a change from base to want by me.
func NewAttempt(me Owner, base Head, want Current) Attempt {
	return Attempt{me: me, base: base, want: want, step: Send}
}

// Step is what to do next.
func (a *Attempt) Step() Step { return a.step }

// Head is CURRENT after the change once the step is Done, and as last read otherwise.
func (a *Attempt) Head() Head { return a.head }

// Sent reports the answer to a put: the new ETag, or an error.
func (a *Attempt) Sent(etag string, err error) {
	if err != nil {
		a.step = Read
		return
	}
	a.head, a.step = Head{Current: a.want, ETag: etag, Exists: true}, Done
}

// Seen reports CURRENT as read again.
func (a *Attempt) Seen(now Head) {
	a.head = now
	switch {
	case !now.Exists && !a.base.Exists:
		a.step = Send
	case !now.Exists:
		a.step = Lost
	case now.Owner.Fences(a.me):
		a.step = Fenced
	case now.Owner.Same(a.me) && now.ChangeID == a.want.ChangeID:
		a.step = Done
	case a.base.Exists && now.ChangeID == a.base.ChangeID && now.ETag == a.base.ETag:
		a.step = Send
	case now.Owner.Same(a.me):
		a.step = Moved
	default:
		a.step = ClaimAgain
	}
}
