package sink

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
)

func anyInputs(t *rapid.T) []Input {
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "ads/2026/11/30/10/00/part-0.parquet", `"inputs":[],`, `a"b\c`, "<a&b>", "\x00\x1f\x7f", "é\u2028\u2029", "\xff\xfe", "日本"}), rapid.String())
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Input {
		return Input{
			Key: text.Draw(t, "key"), ETag: text.Draw(t, "etag"), Bytes: rapid.Int64().Draw(t, "bytes"), Rows: rapid.Int64().Draw(t, "rows"),
			Partition: Time{rapid.SampledFrom([]time.Time{
				{}, time.Unix(0, 0), time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC), time.Date(2026, 11, 30, 12, 0, 0, 120_000_000, time.FixedZone("east", 7200)),
				time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(math.MinInt32, 1),
			}).Draw(t, "partition")},
		}
	}), 0, 8).Draw(t, "inputs")
}

// TestInputsAreWrittenAsTheEncoderWritesThem holds the short way to encoding/json, errors included.
func TestInputsAreWrittenAsTheEncoderWritesThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inputs := some(anyInputs(t))
		same := func(what string, got []byte, err error, wanted any) {
			want, failed := encode(wanted)
			if (err != nil) != (failed != nil) {
				t.Fatalf("%s: %v, want %v", what, err, failed)
			}
			if err == nil && string(got) != string(want) {
				t.Fatalf("%s:\n%s\nwant\n%s", what, got, want)
			}
		}
		got, err := encodeInputs(inputs)
		same("side file", got, err, inputsFile{inputsFormat, inputs})
		m := Manifest{Pipeline: rapid.SampledFrom([]string{"ads", `,"inputs":[],`, `\`}).Draw(t, "pipeline"), RunID: "r", Inputs: inputs}
		m.TimingsMS = map[string]int64{`,"inputs":[],`: 1}
		m = m.normal()
		got, err = encodeManifest(m)
		same("manifest", got, err, m)
	})
}

func TestFormatIsReadFromTheHead(t *testing.T) {
	st := mem.New("out")
	s := New(Settings{Store: st, Pipeline: "ads", NewID: func() string { return "" }})
	for _, c := range []struct {
		name, text string
		newer      bool
	}{
		{"as written", `{"format":"deltad.manifest/1","pipeline":"ads"`, false},
		{"layered", `{"format":"deltad.manifest/2","pipeline":"ads"`, false},
		{"minor", `{"format":"deltad.manifest/2.12"}`, false},
		{"newer", `{"format":"deltad.manifest/3","pipeline":"ads"` + strings.Repeat(" ", 1000), true},
		{"of something else", `{"format":"deltad.current/1"}`, true},
		{"damaged", `nonsense`, false},
		{"cut", `{"format":"deltad.mani`, false},
	} {
		if _, err := store.PutBytes(t.Context(), st, c.name, []byte(c.text), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := s.CheckFormat(t.Context(), Ref{Manifest: c.name}); errors.Is(err, ErrFormat) != c.newer || !c.newer && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := s.CheckFormat(t.Context(), Ref{Manifest: "absent"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an absent manifest: %v", err)
	}
}

func BenchmarkEncodeInputs(b *testing.B) {
	m := Manifest{RunID: "r"}
	for i := range 1440 {
		at := time.Date(2026, 11, 30, 0, i, 0, 0, time.UTC)
		m.Inputs = append(m.Inputs, Input{Key: fmt.Sprintf("ads/%s/part-00000.parquet", at.Format("2006/01/02/15/04")), Partition: At(at), ETag: "4e2b1-18a5c0e1f2b3c4d5-3f2a1", Bytes: 258_305, Rows: 9722})
	}
	m = m.normal()
	b.ReportAllocs()
	b.Run("short", func(b *testing.B) {
		for b.Loop() {
			if _, err := encodeManifest(m); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoder", func(b *testing.B) {
		for b.Loop() {
			if _, err := encode(m); err != nil {
				b.Fatal(err)
			}
		}
	})
}
