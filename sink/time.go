package sink

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Time is an instant in a published file: RFC 3339 with Z, nothing else.
type Time struct{ time.Time }

// At returns t as it is written.
func At(t time.Time) Time { return Time{t.UTC().Round(0)} }

// AtPtr returns t as a nullable field holds it.
func AtPtr(t time.Time) *Time {
	v := At(t)
	return &v
}

// sameTime says whether both are the same instant; two nulls are equal.
func sameTime(a, b *Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Time.Equal(b.Time)
}

// MarshalJSON writes RFC 3339 with Z and only the digits of a second that are needed.
func (t Time) MarshalJSON() ([]byte, error) {
	u := t.UTC()
	if y := u.Year(); y < 0 || y > 9999 {
		return nil, fmt.Errorf("encode time %s: year outside 0 to 9999", u)
	}
	return json.Marshal(u.Format(time.RFC3339Nano))
}

// UnmarshalJSON reads RFC 3339 with Z. Null leaves the value as it is.
func (t *Time) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("decode time %s: not a string", b)
	}
	v, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || !strings.HasSuffix(s, "Z") {
		return fmt.Errorf("decode time %q: want RFC 3339 with Z, such as 2026-11-30T10:00:00Z", s)
	}
	t.Time = v.UTC()
	return nil
}
