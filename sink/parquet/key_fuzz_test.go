package parquet

import (
	"testing"
)

// FuzzKeyRow: what someone writes for a key is an error or a key, and the
// text of that key is the key.
func FuzzKeyRow(f *testing.F) {
	for i, s := range []string{"true", "-12", "9223372036854775808", "1e3", "NaN", "12.340", "+.5", "a=b:+% ü", "00ff", "2026-11-30", "23:59:59.5", "2026-11-30T01:02:03.004+02:00"} {
		f.Add(byte(i), s)
	}
	f.Fuzz(func(t *testing.T, which byte, s string) {
		fields := everyType()
		typ := fields[int(which)%len(fields)].Type
		key, err := keyText(typ, s)
		if err != nil {
			return
		}
		if back, err := keyText(typ, key); err != nil || back != key {
			t.Fatalf("%s %q is the key %q, which is the key %q, %v", typ, s, key, back, err)
		}
	})
}
