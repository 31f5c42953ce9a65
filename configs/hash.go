package configs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Hash returns, in lower-case hex, the SHA-256 of a canonical form of the
// settings that decide what documents contain: layout, granularity, time
// zone, prefixes, format, window, index, errors, full.since and OutputFormat.
// Nothing else enters it. The order of fields and of key columns matters, that
// of prefixes, parameters and YAML keys does not, and equivalent spellings
// (60m and 1h, an inferred and a written granularity) have one hash.
//
// It is meaningful for a pipeline that Validate accepts.
func Hash(p *Pipeline) string {
	sum := sha256.Sum256(canonical(p))
	return hex.EncodeToString(sum[:])
}

// canonicalPipeline is what is hashed, as JSON. Its form is as fixed as a file
// format: to rename or reorder a member changes every hash, and with it makes
// every pipeline publish anew. A new setting gets a member with omitzero, so
// that files which do not use it keep their hash. Durations are in
// nanoseconds.
type canonicalPipeline struct {
	Output      int             `json:"output"`
	Layout      string          `json:"layout"`
	Granularity int64           `json:"granularity"`
	TimeZone    string          `json:"time_zone"`
	Prefixes    []string        `json:"prefixes"`
	Format      string          `json:"format"`
	Window      canonicalWindow `json:"window"`
	Index       canonicalIndex  `json:"index"`
	Errors      canonicalErrors `json:"errors"`
	Since       string          `json:"since"`
}

// canonicalWindow has the settings as written: the defaults of max and on_gap
// depend on the full section, which must not change the hash.
type canonicalWindow struct {
	Size  int64  `json:"size"`
	Max   int64  `json:"max"`
	OnGap string `json:"on_gap"`
}

type canonicalIndex struct {
	Key           []string         `json:"key"`
	EventTime     string           `json:"event_time"`
	EventTimeUnit string           `json:"event_time_unit"`
	Where         string           `json:"where"`
	DeleteWhen    string           `json:"delete_when"`
	Windowing     string           `json:"windowing"`
	Fields        []canonicalField `json:"fields"`
}

type canonicalField struct {
	Name       string           `json:"name"`
	Fn         string           `json:"fn"`
	Columns    []string         `json:"columns"`
	Star       bool             `json:"star"`
	Expr       string           `json:"expr"`
	By         []string         `json:"by"`
	Fields     []canonicalField `json:"fields"`
	DeleteWhen string           `json:"delete_when"`
	Over       int64            `json:"over"`
	Where      string           `json:"where"`
	Optional   bool             `json:"optional"`
	NullsKeep  bool             `json:"nulls_keep"`
	Params     map[string]any   `json:"params"` // encoding/json sorts the keys
}

type canonicalErrors struct {
	Object      string  `json:"object"`
	SkipAfter   int     `json:"skip_after"`
	Row         string  `json:"row"`
	RejectLimit float64 `json:"reject_limit"`
}

// canonical is the text that is hashed.
func canonical(p *Pipeline) []byte {
	s, x, e := p.Source, p.Index, p.Errors
	since := ""
	if p.Full != nil && !p.Full.Since.IsZero() {
		since = p.Full.Since.UTC().Format(time.RFC3339Nano)
	}
	c := canonicalPipeline{
		Output: OutputFormat, Layout: strings.TrimSuffix(s.Layout, "/"), Granularity: int64(p.Granule()),
		TimeZone: s.TimeZone, Prefixes: canonicalPrefixes(s.Prefixes), Format: s.Format,
		Window: canonicalWindow{Size: int64(p.Window.Size), Max: int64(p.Window.Max), OnGap: p.Window.OnGap},
		Index: canonicalIndex{
			Key: list(x.Key), EventTime: x.EventTime.Column, EventTimeUnit: x.EventTime.Unit,
			Where: x.Where, DeleteWhen: x.DeleteWhen, Windowing: x.Windowing, Fields: canonicalFields(x.Fields),
		},
		Errors: canonicalErrors{Object: e.Object, SkipAfter: e.SkipAfter, Row: e.Row, RejectLimit: float64(e.RejectLimit)},
		Since:  since,
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(c); err != nil {
		// Only a NaN or an infinity, which no file can hold, cannot be encoded.
		// The error text names it and is as deterministic as the rest.
		return fmt.Appendf(nil, "%s: %+v", err, p.Errors)
	}
	return bytes.TrimSpace(b.Bytes())
}

// list makes nil and empty one.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// canonicalPrefixes are sorted and without outer slashes: a partition is the
// union of all of them.
func canonicalPrefixes(prefixes []string) []string {
	out := make([]string, 0, len(prefixes))
	for _, p := range prefixes {
		out = append(out, strings.Trim(p, "/"))
	}
	slices.Sort(out)
	return out
}

func canonicalFields(fields []Field) []canonicalField {
	out := make([]canonicalField, 0, len(fields))
	for _, f := range fields {
		c := canonicalField{
			Name: f.Name, Fn: f.Fn, Columns: list(f.Columns), Star: f.Star, Expr: f.Expr, By: list(f.By),
			Fields: canonicalFields(f.Fields), DeleteWhen: f.DeleteWhen, Over: int64(f.Over), Where: f.Where,
			Optional: f.Optional, NullsKeep: f.NullsKeep, Params: make(map[string]any, len(f.Params)),
		}
		for k, v := range f.Params {
			c.Params[k] = canonicalParam(v)
		}
		out = append(out, c)
	}
	return out
}

// canonicalParam makes 1 and 1.0 one.
func canonicalParam(v any) any {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	case int:
		return int64(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = canonicalParam(v[i])
		}
		return out
	}
	return v
}
