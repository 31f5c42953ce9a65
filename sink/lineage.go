package sink

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Bounds of what a manifest names.
const (
	// MaxStale is the most stale objects of a base that a manifest names; StaleCount has all of them.
	MaxStale = 1000
	// MaxHistory is the most former bases that a manifest names.
	MaxHistory = 16
)

// StateFile is a private file under state/: a key-sorted run of accumulators, with what its bytes hash to.
type StateFile struct {
	Key    string `json:"key"`
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Support is a base beside a pane's own that the pane still fits, until when it does: a reader may combine the two, and what is run over
// the pane covers what that base lacks.
type Support struct {
	Generation string `json:"generation"`
	Cut        Time   `json:"cut"`
	Manifest   string `json:"manifest"`
	SHA256     string `json:"sha256"`
	Until      Time   `json:"until"`
}

// Former is a base that was left, and the last pane over it: where a rollback to that base goes.
type Former struct {
	Generation string `json:"generation"`
	Cut        Time   `json:"cut"`
	Pane       Ref    `json:"pane"`
}

// FullIndex is what only a generation's manifest has.
//
// Accumulators is one key-sorted run of all its keys, deleted ones too: the record register and every field over all. Seen is one, without
// columns, of the keys with a record in (cut − longest duration, cut], and empty where no field has a duration. Index is what package
// microbatch says of the fields that the accumulators hold; here it is any JSON object, and its bytes are kept.
type FullIndex struct {
	Since        *Time            `json:"since"` // partitions before it do not exist for the pipeline; null: all do
	Pane         *Ref             `json:"pane"`  // the pane whose watermark is the cut, or null
	Accumulators []StateFile      `json:"accumulators"`
	Seen         []StateFile      `json:"seen"`
	Nulls        map[string]int64 `json:"nulls"` // documents in which a field is null, by field
	Index        json.RawMessage  `json:"index"`
}

// StateFiles are the private files that belong to a generation, or that a pane still needs.
func (m Manifest) StateFiles() []StateFile {
	if m.Full != nil {
		return append(append([]StateFile(nil), m.Full.Accumulators...), m.Full.Seen...)
	}
	return append([]StateFile(nil), m.UnreadSlices...)
}

// FormerBase is m's entry in History of a generation: where a rollback to it goes. Such a base was live once; one that is newer than m's
// own was left by a rollback, which a promotion of its own accord must not undo, whatever a restored state store says of it.
func (m Manifest) FormerBase(generation string) (f Former, ok bool) {
	for _, f := range m.History {
		if f.Generation == generation {
			return f, true
		}
	}
	return Former{}, false
}

// Supporting are m's entries of Supports that count at now.
func (m Manifest) Supporting(now time.Time) []Support {
	var out []Support
	for _, s := range m.Supports {
		if s.Until.After(now) {
			out = append(out, s)
		}
	}
	return out
}

// Inherit returns m with what an ordinary pane copies from its parent: the bases supported beside its own, unless that is over at now,
// and the former bases.
func Inherit(m, parent Manifest, now time.Time) Manifest {
	m.Supports = parent.Supporting(now)
	m.History = append([]Former(nil), parent.History...)
	return m
}

// Leave returns m, the manifest of a promotion or of a rollback over m.Base, with what follows from the pane that it replaces: parent,
// named by ref. The base that is left is supported until that time (not at all where it is not after now) and becomes the newest of the
// former ones; the base that is gone to is neither any more. Where the base stays, it is Inherit.
func Leave(m, parent Manifest, ref Ref, now, until time.Time) Manifest {
	from := parent.Base
	if from == nil || m.Base != nil && m.Base.Generation == from.Generation {
		return without(Inherit(m, parent, now))
	}
	var supports []Support
	if until.After(now) {
		supports = append(supports, Support{Generation: from.Generation, Cut: from.Cut, Manifest: from.Manifest, SHA256: from.SHA256, Until: At(until)})
	}
	supports = append(supports, parent.Supporting(now)...)
	m.Supports = supports
	m.History = append([]Former{{Generation: from.Generation, Cut: from.Cut, Pane: ref}}, parent.History...)
	m = without(m)
	if len(m.History) > MaxHistory {
		m.History = m.History[:MaxHistory]
	}
	return m
}

// without drops m's own base from its supports and its history, and what would stand there twice.
func without(m Manifest) Manifest {
	seen := map[string]bool{}
	own := func(seen map[string]bool) map[string]bool {
		if m.Base != nil {
			seen[m.Base.Generation] = true
		}
		return seen
	}
	own(seen)
	var supports []Support
	for _, s := range m.Supports {
		if !seen[s.Generation] {
			seen[s.Generation] = true
			supports = append(supports, s)
		}
	}
	seen = own(map[string]bool{})
	var history []Former
	for _, f := range m.History {
		if !seen[f.Generation] {
			seen[f.Generation] = true
			history = append(history, f)
		}
	}
	m.Supports, m.History = supports, history
	return m
}

func (m Manifest) validateLineage(k *check) {
	if b := m.Base; b != nil {
		k.that(len(b.Stale) <= MaxStale, "base.stale", "names %d objects, at most %d are allowed", len(b.Stale), MaxStale)
		k.that(b.StaleCount >= int64(len(b.Stale)), "base.stale_count", "is %d for %d objects named", b.StaleCount, len(b.Stale))
		for _, key := range b.Stale {
			k.that(key != "", "base.stale", "has an empty key")
		}
	}
	seen := map[string]bool{}
	for _, s := range m.Supports {
		k.id("supports.generation", s.Generation)
		k.ref("supports", Ref{s.Manifest, s.SHA256})
		k.that(!s.Cut.IsZero() && !s.Until.IsZero(), "supports", "gives no cut or no until for %s", s.Generation)
		k.that(!seen[s.Generation], "supports", "names %s twice", s.Generation)
		k.that(m.Base == nil || m.Base.Generation != s.Generation, "supports", "names the own base %s", s.Generation)
		seen[s.Generation] = true
	}
	k.that(len(m.History) <= MaxHistory, "history", "names %d bases, at most %d are allowed", len(m.History), MaxHistory)
	clear(seen)
	for _, f := range m.History {
		k.id("history.generation", f.Generation)
		k.ref("history.pane", f.Pane)
		k.that(!f.Cut.IsZero(), "history", "gives no cut for %s", f.Generation)
		k.that(!seen[f.Generation], "history", "names %s twice", f.Generation)
		k.that(m.Base == nil || m.Base.Generation != f.Generation, "history", "names the own base %s", f.Generation)
		seen[f.Generation] = true
	}
	seenKeys := map[string]bool{}
	for _, f := range m.UnreadSlices {
		k.stateFile("unread_slices", slicePrefix, f)
		k.that(!seenKeys[f.Key], "unread_slices", "names %s twice", f.Key)
		seenKeys[f.Key] = true
	}
}

func (m Manifest) validateFull(k *check) {
	k.that(m.Cut != nil && !m.Cut.IsZero(), "cut", "is missing")
	k.that(m.Base == nil, "base", "is given for a full index")
	k.that(m.Watermark == nil && m.Coverage == nil, "watermark", "or coverage is given for a full index")
	k.that(len(m.Supports)+len(m.History)+len(m.UnreadSlices) == 0, "supports", "history or unread_slices are given for a full index")
	k.that(m.Full != nil, "full", "is missing")
	if m.Full == nil {
		return
	}
	if m.Full.Pane != nil {
		k.ref("full.pane", *m.Full.Pane)
	}
	seen := map[string]bool{}
	for _, f := range m.StateFiles() {
		k.stateFile("full.accumulators and full.seen", fullStatePrefix+m.RunID+"/", f)
		k.that(!seen[f.Key], "full", "names %s twice", f.Key)
		seen[f.Key] = true
	}
	for name, n := range m.Full.Nulls {
		k.that(name != "" && n >= 0, "full.nulls", "counts %d for %q", n, name)
	}
	k.that(object(m.Full.Index), "full.index", "is not a JSON object")
	for _, f := range m.DataFiles() {
		k.that(strings.HasPrefix(f.Key, fullPrefix+m.RunID+"/"), "files", "names %s, which is not of the generation", f.Key)
	}
}

func (k *check) stateFile(field, prefix string, f StateFile) {
	k.key(field, f.Key)
	k.that(strings.HasPrefix(f.Key, prefix), field, "names %q, which is not under %s", f.Key, prefix)
	k.that(f.Rows >= 0 && f.Bytes >= 0, field, "counts %d rows and %d bytes of %s", f.Rows, f.Bytes, f.Key)
	k.hash(field+".sha256", f.SHA256)
}

func object(raw json.RawMessage) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '{' && json.Valid(raw)
}

// normal makes the slices and maps of a generation's part non-nil, as they are written.
func (f FullIndex) normal() *FullIndex {
	f.Accumulators, f.Seen = some(f.Accumulators), some(f.Seen)
	if f.Nulls == nil {
		f.Nulls = map[string]int64{}
	}
	if len(f.Index) == 0 {
		f.Index = json.RawMessage("{}")
	}
	return &f
}

const (
	fullPrefix      = "full/"
	fullStatePrefix = "state/full/"
	slicePrefix     = "state/slices/"
)

// FullKey is the key of a file of a generation.
func FullKey(generation, name string) string { return fullPrefix + generation + "/" + name }

// FullStateKey is the key of a private file of a generation, such as accumulators.run.
func FullStateKey(generation, name string) string { return fullStatePrefix + generation + "/" + name }

// SliceKey is the key of the slice of an unread object. id is 64 lower-case hexadecimal digits, a hash of what the slice is made of and of
// the run that writes it: a run that finds no slice in its parent's list writes one of its own, so that no pane ever lists a name again
// that none listed any more, and a delete that arrives late hits nothing alive.
func SliceKey(id string) string { return fmt.Sprintf("%s%s.run", slicePrefix, id) }
