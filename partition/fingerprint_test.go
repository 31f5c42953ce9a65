package partition_test

import (
	"testing"

	"github.com/deltad/deltad/partition"
)

// FuzzParseFingerprint: any text is an error or a fingerprint with that text.
func FuzzParseFingerprint(f *testing.F) {
	f.Add(partition.FingerprintOf(nil).String())
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := partition.ParseFingerprint(s)
		if err != nil {
			return
		}
		if back, err := partition.ParseFingerprint(p.String()); err != nil || back != p {
			t.Fatalf("%q is %s, read as %s, %v", s, p, back, err)
		}
	})
}
