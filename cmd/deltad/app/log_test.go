package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
)

// TestLogKeys: a line has the keys that operating.md names, an error among
// them, however it came to the logger, and nothing below the level is written.
func TestLogKeys(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := (&cli{errs: &out, logLevel: "info"}).logger()
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("below")
	log.Error("run failed", zap.String("pipeline", "ads"), zap.Error(errors.New("one")), zap.Duration("took", 1500*time.Microsecond))
	log.With(zap.Error(errors.New("two"))).Warn("kept")
	log.Warn("no error", zap.Error(nil), zap.String("error", "a text"))
	want := []map[string]any{
		{"level": "error", "msg": "run failed", "pipeline": "ads", "err": "one", "took": 1.0},
		{"level": "warn", "msg": "kept", "err": "two"},
		{"level": "warn", "msg": "no error", "error": "a text"},
	}
	dec := json.NewDecoder(&out)
	for _, w := range want {
		var got map[string]any
		if err := dec.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if _, err := time.Parse(time.RFC3339, got["ts"].(string)); err != nil {
			t.Error(err)
		}
		for k, v := range w {
			if got[k] != v {
				t.Errorf("%s: %s is %v, want %v", w["msg"], k, got[k], v)
			}
		}
		if len(got) != len(w)+1 {
			t.Errorf("%s has other keys, too: %v", w["msg"], got)
		}
	}
	if dec.More() {
		t.Error("a line too many")
	}
}
