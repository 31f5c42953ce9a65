package microbatch

import (
	"errors"
	"fmt"
	"slices"

	"github.com/deltad/deltad/microbatch/full"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/sink"
)

// ErrGuard is a pane that a guard refuses.
var ErrGuard = errors.New("guard refused")

// Guards are limits on the documents of a pane; 0 is no limit. MaxShrink and
// MaxGrowth are shares of the live pane's documents.
type Guards struct {
	MinDocuments, MaxDocuments int64
	MaxShrink, MaxGrowth       float64
}

// The names of checks in a pane's manifest.
const (
	rejectedRows   = full.CheckRejected
	documentCount  = "document_count"
	documentChange = "document_change"
)

// check asks the guards that are set of a pane of so many documents, after one
// of so many (below 0: after none that it can be compared with).
func (g Guards) check(documents, before int64) (checks []sink.CheckResult) {
	if g.MinDocuments > 0 || g.MaxDocuments > 0 {
		detail := fmt.Sprintf("%d documents, at least %d are wanted", documents, g.MinDocuments)
		if g.MaxDocuments > 0 {
			detail += fmt.Sprintf(" and at most %d", g.MaxDocuments)
		}
		checks = append(checks, sink.CheckResult{
			Name: documentCount, Passed: documents >= g.MinDocuments && (g.MaxDocuments == 0 || documents <= g.MaxDocuments), Detail: detail,
		})
	}
	if (g.MaxShrink > 0 || g.MaxGrowth > 0) && before > 0 {
		change := float64(documents)/float64(before) - 1
		checks = append(checks, sink.CheckResult{
			Name:   documentChange,
			Passed: (g.MaxShrink == 0 || change >= -g.MaxShrink) && (g.MaxGrowth == 0 || change <= g.MaxGrowth),
			Detail: fmt.Sprintf("%d documents after %d, which is %+.1f %%; shrinking by %g %% and growing by %g %% is allowed (0: by anything)",
				documents, before, 100*change, 100*g.MaxShrink, 100*g.MaxGrowth),
		})
	}
	return checks
}

// guard asks what must hold of every pane before it is published.
func (p *Pipeline) guard(m *sink.Manifest, built slice.Window) error {
	if len(m.Inputs) == 0 && len(m.Skipped) > 0 {
		// More likely the configuration is wrong than every object.
		return fmt.Errorf("%w: all %d objects of the coverage are skipped, such as %s (%s); nothing would be left of the index",
			ErrGuard, len(m.Skipped), m.Skipped[0].Key, m.Skipped[0].Reason)
	}
	ok := m.Counts.RejectedShare() <= p.set.MaxRejectShare
	m.Checks = append(m.Checks, sink.CheckResult{
		Name: rejectedRows, Passed: ok,
		Detail: fmt.Sprintf("%d of %d rows", m.Counts.Rejected, m.Counts.Rows),
	})
	if !ok {
		return fmt.Errorf("%w: %d of %d rows were rejected, more than the allowed share of %g, such as %s",
			ErrGuard, m.Counts.Rejected, m.Counts.Rows, p.set.MaxRejectShare, firstReject(built.Slices))
	}
	before := int64(-1)
	if p.seen.live != nil && sameBases(*m, *p.seen.live) {
		before = p.seen.live.Counts.Documents
	}
	for _, c := range p.set.Guards.check(m.Counts.Documents, before) {
		m.Checks = append(m.Checks, c)
		if !c.Passed {
			return fmt.Errorf("%w: %s: %s; the last pane stays", ErrGuard, c.Name, c.Detail)
		}
	}
	return nil
}

// sameBases says whether two panes fit the same bases. Where they do not, one
// reaches further back than the other, and has more documents for that.
func sameBases(a, b sink.Manifest) bool {
	ids := func(m sink.Manifest) (out []string) {
		if m.Base != nil {
			out = append(out, m.Base.Generation)
		}
		for _, s := range m.Supports {
			out = append(out, s.Generation)
		}
		return out
	}
	return slices.Equal(ids(a), ids(b))
}
