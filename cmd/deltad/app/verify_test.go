package app_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/deltad/deltad/cmd/deltad/app"
)

// TestVerifyWithoutAFullIndex: deltas alone can be verified too.
func TestVerifyWithoutAFullIndex(t *testing.T) {
	config := published(t)
	var out, errs bytes.Buffer
	o := app.Options{Args: []string{"verify", "--recompute", "--all", "-c", config}, Stdout: &out, Stderr: &errs}
	if code := app.Run(t.Context(), o); code != 0 || !strings.Contains(out.String(), "p: passed    recompute") {
		t.Errorf("exit %d: %s%s", code, out.String(), errs.String())
	}
}
