package sink

import (
	"bytes"
	"context"
	"fmt"
	"strings"
)

const rejectsPrefix = "rejects/"

// RejectsKey is the key of the rows that a run left out: a line of JSON each, for people. Nothing refers to it but the text of a check
// in the run's manifest, and collection treats it as part of the run's record.
func RejectsKey(runID string) string { return rejectsPrefix + runID + ".ndjson" }

// PutRejects creates a run's rejected rows and returns their key. It may be called again with the same bytes after any failure.
func (s *Sink) PutRejects(ctx context.Context, runID string, body []byte) (string, error) {
	if !ValidID(runID) {
		return "", fmt.Errorf("put rejected rows: run id %q is not a ULID", runID)
	}
	key := RejectsKey(runID)
	return key, s.create(ctx, key, bytes.NewReader(body), Sum(body))
}

// rejectsOf is the run of a key of rejected rows, or "".
func rejectsOf(key string) string {
	id, ok := strings.CutPrefix(key, rejectsPrefix)
	if id, found := strings.CutSuffix(id, ".ndjson"); ok && found && ValidID(id) {
		return id
	}
	return ""
}
