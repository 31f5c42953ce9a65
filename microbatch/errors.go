package microbatch

import (
	"github.com/deltad/deltad/microbatch/rescue"
	"github.com/deltad/deltad/microbatch/tenure"
)

// ErrFenced is the cause with which a run is cancelled when its leader's
// lease is lost or can no longer be trusted.
var ErrFenced = tenure.ErrFenced

// ErrPanic is a panic that failed one run.
var ErrPanic = rescue.ErrPanic
