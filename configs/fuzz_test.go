package configs

import "testing"

// What a scalar's parser takes, its text gives again.

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"30s", "1h30m", "1d12h", "-5m", "0", "1.5d", "7300d", "1µs2ns", "9223372036s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			return
		}
		if d > maxDuration || d < -maxDuration {
			t.Fatalf("%q is %s, beyond the bound", s, d)
		}
		if back, err := ParseDuration(FormatDuration(d)); err != nil || back != d {
			t.Fatalf("%q is %d, written %q, read as %d, %v", s, d, FormatDuration(d), back, err)
		}
	})
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"512MiB", "1.5GiB", "1GB", "0", "7 kB", "8191PiB", "0.0000000001TiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseSize(s)
		if err != nil {
			return
		}
		if n < 0 {
			t.Fatalf("%q is %d bytes", s, n)
		}
		if back, err := ParseSize(n.String()); err != nil || back != n {
			t.Fatalf("%q is %d, written %q, read as %d, %v", s, n, n, back, err)
		}
	})
}

func FuzzParseLocation(f *testing.F) {
	for _, s := range []string{"s3://b/a%20b?c#d", "s3://b", "file:///x/../y/", "s3://b/x//y", "/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLocation(s)
		if err != nil {
			return
		}
		if back, err := ParseLocation(l.String()); err != nil || back != l {
			t.Fatalf("%q is %+v, written %q, read as %+v, %v", s, l, l, back, err)
		}
		if !l.Contains(l) {
			t.Fatalf("%q does not contain itself", l)
		}
	})
}
