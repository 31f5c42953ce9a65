package open_test

import (
	"strings"
	"testing"

	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
	"github.com/deltad/deltad/store/open"
	"github.com/deltad/deltad/store/s3"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, url string
		want      open.Location
		err       string
	}{
		{"bucket", "s3://b", open.Location{Scheme: "s3", Name: "b"}, ""},
		{"bucket with slash", "s3://b/", open.Location{Scheme: "s3", Name: "b"}, ""},
		{"prefix", "s3://b/ads/x", open.Location{Scheme: "s3", Name: "b", Prefix: "ads/x/"}, ""},
		{"prefix with slash", "s3://b/ads/x/", open.Location{Scheme: "s3", Name: "b", Prefix: "ads/x/"}, ""},
		{"nothing is decoded", "s3://b/a%20b+c?d#e", open.Location{Scheme: "s3", Name: "b", Prefix: "a%20b+c?d#e/"}, ""},
		{"directory", "file:///var/data", open.Location{Scheme: "file", Prefix: "var/data/"}, ""},
		{"directory with detours", "file:///var//x/../data/./", open.Location{Scheme: "file", Prefix: "var/data/"}, ""},
		{"memory", "mem://t/p", open.Location{Scheme: "mem", Name: "t", Prefix: "p/"}, ""},
		{"no scheme", "/var/data", open.Location{}, "want s3://bucket/prefix or file:///dir"},
		{"relative file", "file://data", open.Location{}, "three slashes"},
		{"root directory", "file:///", open.Location{}, "no directory"},
		{"no bucket", "s3:///x", open.Location{}, "no bucket"},
		{"unknown scheme", "gs://b/x", open.Location{}, `scheme "gs"`},
		{"empty segment", "s3://b//x", open.Location{}, "empty segment"},
		{"not a key", "s3://b/\xff", open.Location{}, "UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := open.Parse(c.url)
			if got != c.want || (err == nil) != (c.err == "") || (err != nil && !strings.Contains(err.Error(), c.err)) {
				t.Fatalf("%+v, %v", got, err)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	m := mem.New("t")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	o := open.Options{S3: s3.Options{Region: "eu-west-1"}, Mem: map[string]store.Store{"t": m}}
	for _, c := range []struct{ url, want string }{
		{"s3://b/ads", "s3://b/ads/"},
		{"s3://b", "s3://b"},
		{"file://" + dir + "/x", "file://" + dir + "/x"},
		{"mem://t/p/q", "mem://t/p/q/"},
	} {
		s, err := open.Open(t.Context(), c.url, o)
		if err != nil || s.String() != c.want {
			t.Fatalf("%s: %v, %v", c.url, s, err)
		}
	}
	for _, url := range []string{"mem://other", "s3://", "nonsense"} {
		if _, err := open.Open(t.Context(), url, o); err == nil {
			t.Fatalf("%s: no error", url)
		}
	}
	s, err := open.Open(t.Context(), "mem://t/p", o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutBytes(t.Context(), s, "k", nil, store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Head(t.Context(), "p/k"); err != nil {
		t.Fatal(err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"s3://b/p", "file:///d", "mem://t/a/b", "s3://b//", "file:///../..", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, url string) {
		loc, err := open.Parse(url)
		if err != nil {
			return
		}
		sep := loc.Name + "/"
		again, err := open.Parse(loc.Scheme + "://" + sep + loc.Prefix)
		if err != nil || again != loc {
			t.Fatalf("%q gives %+v, which gives %+v, %v", url, loc, again, err)
		}
	})
}
