package microbatch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
)

// Kind is what a run is to do.
type Kind string

// The kinds of a Plan.
const (
	Idle    Kind = "idle"    // nothing is new: no write
	Advance Kind = "advance" // a newer partition: a new watermark
	Refine  Kind = "refine"  // the same watermark, other inputs or configuration
	Held    Kind = "held"    // something is new, and publishing it is forbidden
)

// Limits on vanished inputs: more than both at once holds the pipeline.
const (
	vanishedCount = 20
	vanishedShare = 10 // percent
)

// Facts is everything a Plan is a function of.
type Facts struct {
	Now time.Time
	// Live is the manifest CURRENT names, with its inputs loaded; nil before
	// the first pane. Progress is CURRENT's, zero before the first pane.
	Live     *sink.Manifest
	Progress time.Time
	// Newest is the start of the newest visible eligible partition, zero if
	// there is none.
	Newest time.Time
	// Objects are the visible ones listed, in key order, vanished inputs that
	// a HEAD still found included.
	Objects []partition.Object
	// Place is the partition of an object as the source is configured now; not
	// ok where it has no such object. nil: objects are where they were.
	Place func(key string, size int64) (start time.Time, ok bool)
	// Listed is the range that was listed.
	Listed partition.Range
	// Settle is how long partitions are left alone before they are read; 0
	// where nothing is promised about when they are complete.
	Settle      time.Duration
	Quarantined []sink.Passed
	// Skip holds the objects not to be read, and why.
	Skip map[ObjectID]string
	// Lost are carried unread objects that are gone, slice and all.
	Lost map[ObjectID]bool
	// Bases are the generations of the full index that the pane must fit: the
	// one it is computed over, then those still supported. Where the pane is
	// for a candidate, Promote is set and the candidate is the first; a
	// refinement keeps all that the live pane supports, Expired those of them
	// that an advance need not fit any more. Empty without a full index.
	Bases   []*Generation
	Expired []*Generation
	Promote bool
	// Breaking is how the configuration differs from what Bases[0] was built
	// with, where the two do not belong together.
	Breaking []string
	// Since is the start of the first partition that exists; zero is no bound.
	Since time.Time
	// ConfigHash is the configuration's; Force asks for a pane even where
	// nothing changed; AcceptLoss releases vanished inputs.
	ConfigHash string
	Force      bool
	AcceptLoss bool
}

// ObjectID is one version of one object.
type ObjectID struct {
	Key, ETag string
	Size      int64
}

func idOf(o partition.Object) ObjectID { return ObjectID{o.Key, o.ETag, o.Size} }

// Input is objects of one partition that a run reads. Those of a partition
// that the live base read and those that it did not are two inputs.
type Input struct {
	slice.Input
	// Read says that the base the pane is computed over read these objects:
	// they feed windowed fields alone. Exact says that it read these versions of
	// them, and not what they replaced.
	Read  bool `json:"read,omitempty"`
	Exact bool `json:"-"`
}

// Plan is what a run will do: the value that `deltad plan` prints and that
// the run executes.
type Plan struct {
	Kind Kind `json:"kind"`
	// Why says it to people.
	Why string `json:"why"`
	// Watermark is the partition to be committed, Previous the progress before.
	Watermark time.Time `json:"watermark"`
	Previous  time.Time `json:"previous_watermark"`
	// Progress is what CURRENT will say.
	Progress time.Time       `json:"progress"`
	Coverage window.Coverage `json:"coverage"`
	Inputs   []Input         `json:"inputs"`
	Skipped  []sink.Passed   `json:"skipped"`
	// Quarantined are prefixes never used for progress.
	Quarantined []sink.Passed `json:"quarantined"`
	// Skips are the visible partitions that the advance jumps over; the
	// coverage holds them unless they are in its gap.
	Skips []time.Time `json:"skips"`
	// Future says that the plan is held because the live watermark lies in the
	// future of the clock: what is there cannot be judged.
	Future bool `json:"future,omitempty"`
	// Vanished are inputs of the live pane that are gone.
	Vanished []string `json:"vanished"`
	// Bases are the generations that the pane fits, the one it is computed over
	// first; Promote says that this makes that one the base. Stale are the
	// objects that it read and that were replaced or are gone since; Reseen are
	// the ids of bases whose keys of (cut − D, cut] all belong to the delta,
	// because such an object lay there.
	Bases   []string `json:"bases,omitempty"`
	Promote bool     `json:"promote,omitempty"`
	Stale   []string `json:"stale,omitempty"`
	Reseen  []string `json:"reseen,omitempty"`
	bases   []*Generation
	now     time.Time // of the trigger
	// Outside are the visible objects before the coverage that no base has:
	// candidates for being late. With a base they are inputs, see unread.
	Outside []partition.Object `json:"-"`
	// Missed are the inputs that came after settle had passed and their
	// partition was published: what the setting missed.
	Missed []partition.Object `json:"-"`
}

// Decide plans a run. It is a pure function of its facts.
func Decide(rule window.Rule, calendar partition.Calendar, f Facts) (Plan, error) {
	p := Plan{Kind: Idle, Quarantined: f.Quarantined, Progress: f.Progress, Previous: f.Progress, Promote: f.Promote, now: f.Now}
	if f.Live == nil && f.Newest.IsZero() {
		p.Why = "no visible eligible partition yet"
		return p, nil
	}
	if err := p.cover(rule, calendar, f); err != nil {
		if !errors.Is(err, window.ErrHeld) {
			return p, err
		}
		p.Kind, p.Why = Held, err.Error()
		return p, nil
	}
	p.split(f)
	p.missed(f)
	p.stale(f)
	if p.Kind != Advance {
		if f.Listed.To.Before(p.Watermark) {
			p.Kind, p.Future = Held, true
			p.Why = fmt.Sprintf("the watermark %s lies in the future of this clock (%s)", text(p.Watermark), text(f.Now))
			return p, nil
		}
		if p.Why = refineWhy(p, f); p.Why == "" {
			p.Why = "nothing is new"
			return p, nil
		}
		p.Kind = Refine
	}
	if f.Promote {
		p.Why = fmt.Sprintf("base %s, cut at %s, is ready", f.Bases[0].ID, text(f.Bases[0].Cut))
	}
	if len(f.Breaking) > 0 {
		p.Kind = Held
		p.Why = "the configuration breaks with that of the base: " + strings.Join(f.Breaking, "; ") +
			"; deltas wait until a rebuild with this configuration (`deltad rebuild`) is promoted"
		return p, nil
	}
	p.vanished(f)
	if n, all := len(p.Vanished), inputCount(f.Live); tooManyGone(n, all) && !f.AcceptLoss {
		p.Kind = Held
		p.Why = fmt.Sprintf("%d of %d inputs are gone at once, %s among them; `deltad trigger --accept-loss --reason` publishes without them",
			n, all, p.Vanished[0])
	}
	return p, nil
}

// cover decides between an advance and a refinement, and what the pane speaks
// for.
func (p *Plan) cover(rule window.Rule, calendar partition.Calendar, f Facts) (err error) {
	past := pastOf(f.Live, f.Progress)
	p.bases = f.Bases
	if f.Live == nil || f.Newest.After(f.Progress) {
		p.Kind, p.Watermark, p.Progress = Advance, f.Newest, f.Newest
		p.bases = slices.DeleteFunc(slices.Clone(f.Bases), func(g *Generation) bool { return slices.Contains(f.Expired, g) })
		skips := !f.Progress.IsZero() && calendar.Next(f.Progress).Before(f.Newest)
		p.Coverage, err = rule.Advance(past, f.Newest, oldestCut(p.bases, rule.Longest), skips)
		p.Why = advanceWhy(f)
	} else {
		p.Watermark = f.Live.Watermark.Time
		p.Coverage = rule.Refine(past, p.Watermark, oldestCut(p.bases, rule.Longest))
	}
	for _, g := range p.bases {
		p.Bases = append(p.Bases, g.ID)
	}
	return err
}

// tooManyGone says whether so many inputs vanished at once that a person has
// to decide.
func tooManyGone(n, all int) bool { return n > vanishedCount && n*100 > all*vanishedShare }

func pastOf(live *sink.Manifest, progress time.Time) window.Past {
	past := window.Past{Progress: progress}
	if live == nil {
		return past
	}
	for _, j := range live.Jumps {
		past.Jumps = append(past.Jumps, window.Jump{From: j.From.Time, At: j.At.Time})
	}
	for _, g := range live.Gap {
		past.Gaps = append(past.Gaps, partition.Range{From: g.From.Time, To: g.To.Time})
	}
	return past
}

func advanceWhy(f Facts) string {
	if f.Live == nil {
		return "first pane"
	}
	return fmt.Sprintf("%s is newer than %s", text(f.Newest), text(f.Progress))
}

func inputCount(live *sink.Manifest) int {
	if live == nil {
		return 0
	}
	return len(live.Inputs)
}

func (f Facts) liveInputs() []sink.Input {
	if f.Live == nil {
		return nil
	}
	return f.Live.Inputs
}

// split sorts the listed objects into inputs, skipped ones and those outside.
// Objects of one partition are read as one, those apart that the base read,
// and so are unread objects outside the coverage, each of which may be
// carried for long after the others are read.
func (p *Plan) split(f Facts) {
	likely := inputCount(f.Live) + 1
	groups := &grouping{likely: likely, objects: make([]partition.Object, 0, likely)}
	for _, o := range f.Objects {
		covered := p.Coverage.Contains(o.Partition)
		if o.Partition.Before(f.Since) || !covered && o.Partition.After(p.Watermark) {
			continue
		}
		if !covered && !p.unread(o) {
			if len(p.bases) == 0 && !inGap(p.Coverage.Gaps, o.Partition) {
				p.Outside = append(p.Outside, o)
			}
			continue
		}
		p.take(f, groups, o)
	}
	for _, o := range p.carried(f) {
		p.take(f, groups, o)
	}
	p.order(groups)
	for _, in := range p.Inputs {
		if p.Kind == Advance && in.Start.After(f.Progress) && in.Start.Before(p.Watermark) && !f.Progress.IsZero() {
			p.Skips = append(p.Skips, in.Start)
		}
	}
	slices.SortFunc(p.Skips, time.Time.Compare)
	p.Skips = slices.CompactFunc(p.Skips, time.Time.Equal)
	slices.SortFunc(p.Skipped, func(a, b sink.Passed) int { return strings.Compare(a.Key, b.Key) })
}

// take adds an object to the inputs, or to what is skipped.
func (p *Plan) take(f Facts, groups *grouping, o partition.Object) {
	if why, skipped := f.Skip[idOf(o)]; skipped {
		p.Skipped = append(p.Skipped, sink.Passed{
			Key: o.Key, Partition: sink.AtPtr(o.Partition), ETag: o.ETag, Bytes: o.Size, Reason: why,
		})
		return
	}
	p.add(groups, o)
}

// group says which objects are read as one input.
type group struct {
	start       time.Time
	read, exact bool
	alone       string
}

func (p *Plan) add(groups *grouping, o partition.Object) {
	g := group{start: o.Partition}
	if len(p.bases) > 0 {
		g.read, g.exact = p.bases[0].Read(o), p.bases[0].exactly(o)
	}
	if !p.Coverage.Contains(o.Partition) {
		g.alone = o.Key
	}
	groups.add(g, o)
}

// order makes the groups the inputs, oldest first.
func (p *Plan) order(groups *grouping) {
	byKey := func(a, b partition.Object) int { return strings.Compare(a.Key, b.Key) }
	for i := range groups.inputs {
		if objects := groups.inputs[i].Objects; !slices.IsSortedFunc(objects, byKey) {
			slices.SortFunc(objects, byKey)
		}
	}
	oldest := func(a, b Input) int {
		return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.Objects[0].Key, b.Objects[0].Key))
	}
	if p.Inputs = groups.inputs; !slices.IsSortedFunc(p.Inputs, oldest) {
		slices.SortFunc(p.Inputs, oldest)
	}
}

// missed finds what was not there when its partition was first published.
func (p *Plan) missed(f Facts) {
	if f.Settle <= 0 || f.Live == nil {
		return
	}
	known := map[string]bool{}
	for _, in := range f.Live.Inputs {
		known[in.Key] = true
	}
	for _, s := range f.Live.Skipped {
		known[s.Key] = true
	}
	spoken := partition.Range{From: f.Live.Coverage.From.Time, To: f.Live.Coverage.To.Time}
	for _, in := range p.Inputs {
		for _, o := range in.Objects {
			if spoken.Contains(in.Start) && !known[o.Key] {
				p.Missed = append(p.Missed, o)
			}
		}
	}
}

// refineWhy is the refine rule: why a new pane at the same watermark is due,
// or nothing.
func refineWhy(p Plan, f Facts) string {
	if f.Promote {
		return "a base is ready"
	}
	if f.Live.ConfigHash != f.ConfigHash {
		return "the configuration changed"
	}
	now, why := newInput(p, f.Live.Inputs)
	if why != "" {
		return why
	}
	skippedBefore := map[ObjectID]bool{}
	for _, s := range f.Live.Skipped {
		skippedBefore[ObjectID{s.Key, s.ETag, s.Bytes}] = true
	}
	for _, s := range p.Skipped {
		if !skippedBefore[ObjectID{s.Key, s.ETag, s.Bytes}] {
			return s.Key + " is skipped now"
		}
	}
	for _, s := range f.Live.Skipped {
		if s.Partition != nil && f.Listed.Contains(s.Partition.Time) && p.wants(s.Key, s.Partition.Time) && !slices.ContainsFunc(p.Skipped, func(o sink.Passed) bool { return o.Key == s.Key }) &&
			!slices.ContainsFunc(f.Objects, func(o partition.Object) bool { return o.Key == s.Key }) {
			return s.Key + ", which was skipped, is gone"
		}
	}
	if now < len(f.Live.Inputs) {
		return fmt.Sprintf("%d of %d inputs are gone", len(f.Live.Inputs)-now, len(f.Live.Inputs))
	}
	if f.Force {
		return "asked for"
	}
	return ""
}

// newInput names an object of the plan that the live pane has not read, and
// else counts the plan's.
func newInput(p Plan, live []sink.Input) (now int, why string) {
	if sameAs(live, p.Inputs) {
		return len(live), ""
	}
	before := make(map[ObjectID]bool, len(live))
	for _, in := range live {
		before[ObjectID{in.Key, in.ETag, in.Bytes}] = true
	}
	for _, in := range p.Inputs {
		for _, o := range in.Objects {
			now++
			if !before[idOf(o)] {
				return now, fmt.Sprintf("%s is new or changed in %s", o.Key, text(in.Start))
			}
		}
	}
	return now, ""
}

// vanished finds the inputs of the live pane that should be there still.
func (p *Plan) vanished(f Facts) {
	if f.Live == nil {
		return
	}
	there := lookup{objects: f.Objects}
	for _, in := range f.Live.Inputs {
		if f.Listed.Contains(in.Partition.Time) && !there.has(in.Key) {
			p.Vanished = append(p.Vanished, in.Key)
		}
	}
	slices.Sort(p.Vanished)
}

func text(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// inGap says whether a partition lies in a gap: reported as never covered, it
// is not late.
func inGap(gaps []partition.Range, start time.Time) bool {
	return slices.ContainsFunc(gaps, func(g partition.Range) bool { return g.Contains(start) })
}

// slices are the inputs as package slice takes them.
func (p Plan) slices() []slice.Input {
	out := make([]slice.Input, len(p.Inputs))
	for i, in := range p.Inputs {
		out[i] = in.Input
	}
	return out
}

// floor are the types that the slices must be built at, at least: the base's.
func (p Plan) floor(program *index.Program) []column.Type {
	if len(p.bases) == 0 {
		return nil
	}
	return program.TypesFor(p.bases[0].Bound)
}
