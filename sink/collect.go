package sink

import (
	"sort"
	"strings"
	"time"
)

// Keeping times that are not configured.
const (
	// OrphanAge is how long after its newest object data that no published pane names is left alone.
	OrphanAge = 24 * time.Hour
	// RecordAge is how long a manifest outlives its data as a record.
	RecordAge = 7 * 24 * time.Hour
)

// Retain says which panes are kept beside the one CURRENT names. The zero value keeps no other.
type Retain struct {
	For   time.Duration // every pane that CURRENT named within this time
	Panes int           // and at least this many
	Bases int           // and the last this many bases, the live one among them, each with the last pane over it
}

// DefaultRetain is output.retain's default.
func DefaultRetain() Retain { return Retain{For: 2 * time.Hour, Panes: 20, Bases: 3} }

// Object is what a listing says of one object. Modified is by the store's clock.
type Object struct {
	Key      string
	Bytes    int64
	Modified time.Time
}

// Published is a pane that CURRENT names or named.
type Published struct {
	RunID    string
	DataIDs  []string // the runs whose data it is made of
	Base     string   // generation, or ""
	Supports []string // generations of the bases beside it that it fits
	Slices   []string // keys of the slices it lists as unread
	Written  time.Time
}

// Evidence is all that a collection is planned from.
type Evidence struct {
	Head       Head
	Panes      []Published // from the one CURRENT names along the parent links, newest first, at least as far as Retain asks
	History    []Published // the last pane over each former base, newest first, as the pane that CURRENT names has them
	Pinned     []Published // pinned panes, where they are not in Panes
	Manifests  []Object    // everything under manifests/
	Data       []Object    // everything under delta/
	Rejects    []Object    // everything under rejects/
	Full       []Object    // everything under full/
	State      []Object    // everything under state/full/ and state/slices/
	Cached     []Object    // everything under state/cache/
	CachedRule CachedRule  // what of it is of use
	Pins       []string    // run ids of pinned panes, generations of pinned bases
	Live       []string    // ids of runs and rebuilds that are going on or not yet settled
	Candidates []string    // generations that wait to be promoted
	Held       []string    // generations that a gate holds
	Now        time.Time   // the store's clock: when something was written lately, never later than that
	Retain     Retain
}

// Collection is what a collection would do: delete data of ids that CURRENT condemns already, delete old records, and then change
// condemned, all of it possible to repeat. Where there is nothing its lists are empty and not nil.
type Collection struct {
	Keep    []string  `json:"keep"`    // run ids of the panes kept
	Bases   []string  `json:"bases"`   // generations of the bases kept
	Delete  []Removal `json:"delete"`  // data to delete now, condemned before
	Records []string  `json:"records"` // keys of manifests, side files and rejected rows whose data is gone for long
	Slices  []string  `json:"slices"`  // keys of slices that no kept pane lists any more
	Cached  []string  `json:"cached"`  // keys of cached slices that no run can use any more
	Condemn []string  `json:"condemn"` // ids to add
	Drop    []string  `json:"drop"`    // condemned ids of which nothing is left once Delete is done
	Waiting int       `json:"waiting"` // ids that would be condemned but for MaxCondemned
	Held    []string  `json:"held"`    // condemned ids that a kept pane is made of: never deleted, for a person to look at
}

// Removal is the data of one condemned id.
type Removal struct {
	ID    string   `json:"id"`
	Why   string   `json:"why"` // superseded or orphan
	Keys  []string `json:"keys"`
	Bytes int64    `json:"bytes"`
}

// Empty says that there is nothing to do.
func (c Collection) Empty() bool {
	return len(c.Delete)+len(c.Records)+len(c.Slices)+len(c.Cached)+len(c.Condemn)+len(c.Drop) == 0
}

// Bytes is how much data Delete frees.
func (c Collection) Bytes() int64 {
	var n int64
	for _, r := range c.Delete {
		n += r.Bytes
	}
	return n
}

// Condemned is the list for the next CURRENT: what was condemned and has been deleted leaves, what is to be deleted next joins. deleted
// says whether Delete was carried out. A publish may carry it, see Commit.
func (c Collection) Condemned(head Head, deleted bool) []string {
	out := []string{}
	drop := map[string]bool{}
	for _, id := range c.Drop {
		drop[id] = deleted
	}
	for _, id := range head.Condemned {
		if !drop[id] {
			out = append(out, id)
		}
	}
	for _, id := range c.Condemn {
		if len(out) < MaxCondemned {
			out = append(out, id)
		}
	}
	return out
}

// PlanCollection decides. It is a pure function of the evidence.
//
// Panes kept are the one CURRENT names, those that it named within Retain.For (a pane counts until the manifest of the next was written)
// and at least Retain.Panes, pins, and the last pane over each of the last Retain.Bases bases and over each pinned one. Bases kept are
// those of kept panes, those that the live pane supports, pins, the newest candidate and the newest held one, and any younger than
// OrphanAge.
//
// Data of a published pane may go when no kept pane is made of it; data and manifests that no published pane is known to name may go
// OrphanAge after their newest object, unless the run is live. A generation's data are its files and its private ones; records are
// manifests, the side files of their inputs and rejected rows, and go RecordAge after that. All data is condemned first and deleted by a
// later plan, which sees it in Head.Condemned (Invariant 7).
//
// Slices belong to no id. One goes OrphanAge after it was written if no kept pane lists it, and no other known one that somebody could
// still go back to. Cached slices belong to nobody, see CachedRule: one goes CachedAge after it was written if no run can use it, one of
// another recipe OrphanAge after.
func PlanCollection(ev Evidence) Collection {
	p := planner{
		ev: ev, live: setOf(ev.Live), pins: setOf(ev.Pins), condemned: setOf(ev.Head.Condemned), ids: map[string]*idObjects{},
		kept: map[string]bool{}, bases: map[string]bool{}, needed: map[string]bool{}, known: map[string]bool{}, slices: map[string]bool{},
		ended: map[string]time.Time{},
		out: Collection{ // people read it as JSON, where nothing is an empty list
			Keep: []string{}, Bases: []string{}, Delete: []Removal{}, Records: []string{}, Slices: []string{}, Cached: []string{}, Condemn: []string{},
			Drop: []string{}, Held: []string{},
		},
	}
	p.group()
	p.keep()
	p.plan()
	p.planSlices()
	p.planCached()
	return p.out
}

type idObjects struct {
	data     []Object
	records  []Object
	modified time.Time
	bytes    int64
	full     bool // it is a generation
}

type planner struct {
	ev        Evidence
	pins      map[string]bool
	condemned map[string]bool
	live      map[string]bool
	kept      map[string]bool      // run ids of kept panes
	bases     map[string]bool      // generations kept
	needed    map[string]bool      // ids whose data stays
	known     map[string]bool      // run ids of published panes, generations of promoted bases
	slices    map[string]bool      // keys of slices that stay
	ended     map[string]time.Time // when another pane took the place of a pane, or the last over a base
	ids       map[string]*idObjects
	out       Collection
}

func setOf(ids []string) map[string]bool {
	m := make(map[string]bool, len(ids))
	for _, id := range ids {
		m[id] = true
	}
	return m
}

func (p *planner) keep() {
	for i, pane := range p.ev.Panes {
		p.known[pane.RunID], p.known[pane.Base] = true, true
		keep := i == 0 || i < p.ev.Retain.Panes || p.pins[pane.RunID]
		if i > 0 {
			// A pane was readable until the next one's manifest was written, which is its predecessor in this list.
			next := p.ev.Panes[i-1]
			p.ended[pane.RunID] = next.Written
			if pane.Base != next.Base && next.Written.After(p.ended[pane.Base]) {
				p.ended[pane.Base] = next.Written
			}
			keep = keep || p.ev.Now.Sub(next.Written) < p.ev.Retain.For
		}
		switch {
		case keep:
			p.keepPane(pane)
		case !p.over(pane):
			p.needSlices(pane)
		}
	}
	for i, pane := range p.ev.History {
		p.known[pane.RunID], p.known[pane.Base] = true, true
		if i < p.ev.Retain.Bases-1 || p.pins[pane.Base] || p.pins[pane.RunID] {
			p.keepPane(pane)
		}
	}
	for _, pane := range p.ev.Pinned {
		p.keepPane(pane)
	}
	for id := range p.pins {
		p.kept[id], p.needed[id] = true, true
	}
	if len(p.ev.Panes) > 0 {
		for _, id := range p.ev.Panes[0].Supports {
			p.keepBase(id)
		}
	}
	if id := p.ev.Head.RunID; id != "" {
		p.kept[id], p.needed[id] = true, true
	}
	if b := p.ev.Head.Base; b != nil {
		p.keepBase(b.Generation)
	}
	p.keepBase(p.newest(p.ev.Candidates))
	p.keepBase(p.newest(p.ev.Held))
}

func (p *planner) keepPane(pane Published) {
	p.needSlices(pane)
	p.keepBase(pane.Base)
	for _, id := range pane.DataIDs {
		p.needed[id] = true
	}
	if !p.kept[pane.RunID] {
		p.kept[pane.RunID] = true
		p.out.Keep = append(p.out.Keep, pane.RunID)
	}
}

func (p *planner) keepBase(generation string) {
	if generation != "" && !p.bases[generation] {
		p.bases[generation], p.needed[generation] = true, true
		p.out.Bases = append(p.out.Bases, generation)
	}
}

func (p *planner) needSlices(pane Published) {
	for _, key := range pane.Slices {
		p.slices[key] = true
	}
}

// over says whether nobody can go back to a pane any more: data of it is condemned or gone.
func (p *planner) over(pane Published) bool {
	for _, id := range append([]string{pane.Base}, pane.DataIDs...) {
		if id != "" && (p.condemned[id] || p.ids[id] == nil || len(p.ids[id].data) == 0) {
			return true
		}
	}
	return false
}

// newest is the last of some generations by age that is not condemned already.
func (p *planner) newest(generations []string) (last string) {
	for _, g := range generations {
		if g > last && !p.condemned[g] {
			last = g
		}
	}
	return last
}

// group sorts the objects by the run or generation they belong to; what belongs to none is not deltad's and stays.
func (p *planner) group() {
	of := func(id string, o Object) *idObjects {
		g := p.ids[id]
		if g == nil {
			g = &idObjects{}
			p.ids[id] = g
		}
		if o.Modified.After(g.modified) {
			g.modified = o.Modified
		}
		return g
	}
	data := func(id string, o Object, full bool) {
		g := of(id, o)
		g.data, g.bytes, g.full = append(g.data, o), g.bytes+o.Bytes, full
	}
	for _, o := range p.ev.Data {
		if id := idOf(o.Key); id != "" {
			data(id, o, false)
		}
	}
	for _, o := range p.ev.Full {
		if id := generationOf(o.Key); id != "" && fullRecord(o.Key) {
			g := of(id, o)
			g.records, g.full = append(g.records, o), true
		} else if id != "" {
			data(id, o, true)
		}
	}
	for _, o := range p.ev.State {
		if id := generationOf(o.Key); id != "" {
			data(id, o, true)
		}
	}
	for _, o := range p.ev.Manifests {
		if _, id, _, ok := parseManifestKey(o.Key); ok {
			g := of(id, o)
			g.records = append(g.records, o)
		}
	}
	for _, o := range p.ev.Rejects {
		if id := rejectsOf(o.Key); id != "" {
			g := of(id, o)
			g.records = append(g.records, o)
		}
	}
}

func (p *planner) plan() {
	ids := make([]string, 0, len(p.ids))
	for id := range p.ids {
		ids = append(ids, id)
	}
	sort.Strings(ids) // ULIDs: oldest first, so history shortens from its end
	for _, id := range p.ev.Head.Condemned {
		switch g := p.ids[id]; {
		case p.needed[id]:
			p.out.Held = append(p.out.Held, id)
		case g == nil || len(g.data) == 0:
			p.out.Drop = append(p.out.Drop, id)
		default:
			p.out.Delete = append(p.out.Delete, p.removal(id, g))
			p.out.Drop = append(p.out.Drop, id)
		}
	}
	room := MaxCondemned - len(p.ev.Head.Condemned)
	for _, id := range ids {
		g := p.ids[id]
		if p.condemned[id] || p.live[id] || p.needed[id] {
			continue
		}
		if len(g.data) == 0 {
			if !p.kept[id] && p.ev.Now.Sub(latest(g.modified, p.ended[id])) >= RecordAge+p.ev.Retain.For {
				p.out.Records = append(p.out.Records, keysOf(g.records)...)
			}
			continue
		}
		young := p.ev.Now.Sub(g.modified) < OrphanAge
		switch {
		case young && g.full:
			p.keepBase(id)
		case young && !p.known[id]:
		case room > 0:
			p.out.Condemn = append(p.out.Condemn, id)
			room--
		default:
			p.out.Waiting++
		}
	}
}

// planSlices finds the slices that no pane needs.
func (p *planner) planSlices() {
	for _, o := range p.ev.State {
		if strings.HasPrefix(o.Key, slicePrefix) && !p.slices[o.Key] && p.ev.Now.Sub(o.Modified) >= OrphanAge {
			p.out.Slices = append(p.out.Slices, o.Key)
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (p *planner) removal(id string, g *idObjects) Removal {
	why := "superseded"
	if !p.known[id] {
		why = "orphan"
	}
	return Removal{ID: id, Why: why, Keys: keysOf(g.data), Bytes: g.bytes}
}

func keysOf(objects []Object) []string {
	keys := make([]string, len(objects))
	for i, o := range objects {
		keys[i] = o.Key
	}
	return keys
}
