package full

import (
	"fmt"

	"github.com/deltad/deltad/sink"
)

// Gate are the limits that a generation must keep to become a candidate.
type Gate struct {
	// MaxShrink and MaxGrowth are shares of the live generation's documents,
	// MaxNulls is by how much the share of nulls of a field may rise.
	MaxShrink, MaxGrowth, MaxNulls float64
}

// DefaultGate is the gate of the design: −5 % to +50 % documents, and no field
// with a twentieth more nulls than before.
func DefaultGate() Gate { return Gate{MaxShrink: 0.05, MaxGrowth: 0.5, MaxNulls: 0.05} }

// The names of the checks. A person who lets a generation past the gate names
// those it did not pass.
const (
	CheckKeys      = "unique_sorted_keys"
	CheckFiles     = "checksums"
	CheckDocuments = "document_count"
	CheckFields    = "fields"
	CheckNulls     = "null_rates"
	CheckRejected  = "rejected_rows" // panes have it too
	CheckCanary    = "canary"        // and this one
)

// Compare asks what can be asked of two manifests: a generation's and the live
// one's, nil where there is none. It is a pure function.
func (g Gate) Compare(m sink.Manifest, live *sink.Manifest) []sink.CheckResult {
	if live == nil {
		none := "there is no live generation to compare with"
		return []sink.CheckResult{
			{Name: CheckDocuments, Passed: true, Detail: none}, {Name: CheckFields, Passed: true, Detail: none}, {Name: CheckNulls, Passed: true, Detail: none},
		}
	}
	return []sink.CheckResult{g.documents(m, live), g.fields(m, live), g.nulls(m, live)}
}

func (g Gate) documents(m sink.Manifest, live *sink.Manifest) sink.CheckResult {
	was, now := float64(live.Counts.Documents), float64(m.Counts.Documents)
	return sink.CheckResult{
		Name: CheckDocuments, Passed: now >= was*(1-g.MaxShrink) && now <= was*(1+g.MaxGrowth) || was == 0,
		Detail: fmt.Sprintf("%d documents, the live generation has %d; allowed are %+g %% to %+g %%", m.Counts.Documents, live.Counts.Documents, -100*g.MaxShrink, 100*g.MaxGrowth),
	}
}

// fields asks that nothing is gone from the documents or has another type. A
// type that nothing was seen of is no type yet.
func (g Gate) fields(m sink.Manifest, live *sink.Manifest) sink.CheckResult {
	now := map[string]sink.SchemaField{}
	for _, f := range m.Schema.Fields {
		now[f.Name] = f
	}
	for _, was := range live.Schema.Fields {
		f, ok := now[was.Name]
		switch {
		case !ok:
			return sink.CheckResult{Name: CheckFields, Detail: fmt.Sprintf("%s is gone", was.Name)}
		case f.Type != was.Type && was.Type != "null", f.Key != was.Key:
			return sink.CheckResult{Name: CheckFields, Detail: fmt.Sprintf("%s was %s and is %s", was.Name, was.Type, f.Type)}
		}
	}
	return sink.CheckResult{Name: CheckFields, Passed: true, Detail: fmt.Sprintf("%d fields", len(m.Schema.Fields))}
}

func (g Gate) nulls(m sink.Manifest, live *sink.Manifest) sink.CheckResult {
	if live.Full == nil || live.Counts.Documents == 0 || m.Counts.Documents == 0 {
		return sink.CheckResult{Name: CheckNulls, Passed: true, Detail: "no documents to compare"}
	}
	share := func(m *sink.Manifest, field string) float64 {
		return float64(m.Full.Nulls[field]) / float64(m.Counts.Documents)
	}
	for _, f := range m.Schema.Fields {
		if _, known := live.Full.Nulls[f.Name]; !known {
			continue
		}
		if was, now := share(live, f.Name), share(&m, f.Name); now > was+g.MaxNulls {
			return sink.CheckResult{Name: CheckNulls, Detail: fmt.Sprintf("%s is null in %.1f %% of the documents, in the live generation in %.1f %%", f.Name, 100*now, 100*was)}
		}
	}
	return sink.CheckResult{Name: CheckNulls, Passed: true, Detail: fmt.Sprintf("no field has over %g %% more nulls", 100*g.MaxNulls)}
}

// failed are the names of the checks that did not pass.
func failed(checks []sink.CheckResult) (names []string) {
	for _, c := range checks {
		if !c.Passed {
			names = append(names, c.Name)
		}
	}
	return names
}
