package microbatch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/deltad/deltad/microbatch/slice"
)

// backoffTriggers are the triggers between attempts after failures that
// another attempt alone will not mend.
var backoffTriggers = [...]int{1, 2, 4, 8, 10}

// backoff spaces the attempts after failures of input, guard or code. It is
// reset by a success or by a change of what the run would read.
type backoff struct {
	failures int
	wait     int // triggers to let pass
	inputs   string
	last     error
}

// holds says whether this trigger is to pass without an attempt. The inputs are
// named only where there was a failure.
func (b *backoff) holds(inputs func() string) bool {
	if b.failures == 0 || b.inputs != inputs() {
		return false
	}
	b.wait--
	return b.wait > 0
}

// waiting is the error of a trigger that passes without an attempt.
func (b *backoff) waiting() error {
	triggers := "triggers"
	if b.wait == 1 {
		triggers = "trigger"
	}
	return fmt.Errorf("waiting %d more %s after %d failed attempts: %w", b.wait, triggers, b.failures, b.last)
}

// failed notes a failed attempt on the inputs.
func (b *backoff) failed(inputs string, err error) {
	if b.inputs != inputs {
		b.failures = 0
	}
	b.inputs, b.last = inputs, err
	b.wait = backoffTriggers[min(b.failures, len(backoffTriggers)-1)]
	b.failures++
}

func (b *backoff) reset() { *b = backoff{} }

// signature names what a run would read, for backoff.
func (p Plan) signature(configHash string) string {
	h := sha256.New()
	h.Write([]byte(configHash + string(p.Kind) + text(p.Watermark)))
	for _, in := range p.Inputs {
		id := slice.IDOf(in.Input)
		h.Write(id[:])
	}
	for _, id := range p.Bases {
		h.Write([]byte(id))
	}
	for _, s := range p.Skipped {
		h.Write([]byte(s.Key + "\x00" + s.ETag))
	}
	return hex.EncodeToString(h.Sum(nil))
}
