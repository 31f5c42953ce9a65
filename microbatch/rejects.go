package microbatch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/sink"
)

// Bounds of what a run writes of the rows that it rejects.
const (
	maxRejectRows  = 10_000
	maxRejectBytes = 8 << 20
)

// rejectsOf are the rejected rows of slices that no published run has told of,
// as lines of JSON, and how many of how many they are. Slices in the cache
// were told of by the run that built them.
func rejectsOf(slices []*slice.Slice) (lines []byte, told, all int64) {
	var out bytes.Buffer
	for _, s := range slices {
		if s.Told {
			continue
		}
		all += s.Rejected
		for _, r := range s.Rejects {
			line, err := json.Marshal(struct {
				Object string `json:"object"`
				Row    int64  `json:"row"`
				Reason string `json:"reason"`
				Text   string `json:"text,omitempty"`
			}{r.Key, r.Row, r.Reason, r.Text})
			if err != nil || told == maxRejectRows || out.Len()+len(line) >= maxRejectBytes {
				continue
			}
			out.Write(line)
			out.WriteByte('\n')
			told++
		}
	}
	return out.Bytes(), told, all
}

// tellRejects writes the rows that this run rejected and names the file in the
// check of rejected rows.
func (p *Pipeline) tellRejects(ctx context.Context, built slice.Window, m *sink.Manifest) error {
	lines, told, all := rejectsOf(built.Slices)
	if told == 0 {
		return nil
	}
	key, err := p.set.Sink.PutRejects(ctx, m.RunID, lines)
	if err != nil {
		return fmt.Errorf("write rejected rows: %w", err)
	}
	for i := range m.Checks {
		if m.Checks[i].Name == rejectedRows {
			m.Checks[i].Detail += fmt.Sprintf("; %s has %d of %d that this run was the first to read", key, told, all)
		}
	}
	return nil
}

// firstReject is an example for people.
func firstReject(slices []*slice.Slice) string {
	for _, s := range slices {
		if len(s.Rejects) > 0 {
			r := s.Rejects[0]
			return fmt.Sprintf("%s row %d: %s", r.Key, r.Row, r.Reason)
		}
	}
	return ""
}
